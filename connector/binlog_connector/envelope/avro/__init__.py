"""Messages in Avro, with ids of a schema registry in place of schemas: start with `avro_encoding.AvroEncoding`."""
