-- MySQL 9.7.4: updates that are changes to JSON values, which no row image has as a whole.
CREATE DATABASE w
USE w
SET SESSION binlog_row_value_options = PARTIAL_JSON, sql_mode = ''
CREATE TABLE minimal (id INT PRIMARY KEY, doc JSON, n INT)
CREATE TABLE noblob (id INT PRIMARY KEY, doc JSON, n INT)
INSERT INTO minimal VALUES (1, '{"a": "aaaaaaaaaaaaaaaa", "in": {"k": "kkkkkkkkkkkkkkkk", "list": [1, {"z": "zzzzzzzz"}, 3]}, "spaced key": 1.50, "pad": "pppppppppppppppppppp"}', 0)
INSERT INTO minimal SELECT id + 1, JSON_SET(doc, '$.d', CAST(12.50 AS DECIMAL(10, 2)), '$.day', CAST('2024-01-02' AS DATE), '$."q\\"uo"', 'é'), n FROM minimal
INSERT INTO minimal SELECT id + 2, doc, n FROM minimal
INSERT INTO minimal SELECT id + 4, doc, n FROM minimal
INSERT INTO noblob SELECT * FROM minimal
SET SESSION binlog_row_image = MINIMAL
UPDATE minimal SET doc = JSON_SET(doc, '$.a', CAST(3.10 AS DECIMAL(5, 2))) WHERE id = 1
UPDATE minimal SET doc = JSON_SET(doc, '$.in.list[1].z', CAST('2024-01-02 03:04:05.6' AS DATETIME(1)), '$.new', JSON_OBJECT('b', 1, 'a', NULL)) WHERE id <= 3
UPDATE minimal SET doc = JSON_REMOVE(JSON_REPLACE(doc, '$.in.k', 1e20), '$.in.list[0]', '$.pad') WHERE id IN (2, 4)
UPDATE minimal SET doc = JSON_ARRAY_INSERT(doc, '$.in.list[1]', '"quoted" text') WHERE id = 3
UPDATE minimal SET doc = JSON_SET(doc, '$."q\\"uo"', JSON_ARRAY(), '$.é', TRUE) WHERE id = 2
UPDATE minimal SET id = 14, doc = JSON_SET(doc, '$.a', 'moved') WHERE id = 4
UPDATE minimal SET doc = JSON_SET(doc, '$.in.list[last]', 'end', '$.in.list[9]', 'added') WHERE id = 14
UPDATE minimal SET n = n + 1 WHERE id IN (1, 14)
DELETE FROM minimal WHERE id = 5
UPDATE minimal SET doc = JSON_SET(doc, '$.a', 'gone') WHERE id = 6
DELETE FROM minimal WHERE id = 6
INSERT INTO minimal VALUES (6, '[{"a": "aaaaaaaaaaaa"}, 2]', 6)
UPDATE minimal SET doc = JSON_SET(doc, '$[0].a', 'again') WHERE id = 6
UPDATE minimal SET doc = '{"whole": "wwwwwwwwwwwwwwww"}' WHERE id = 7
UPDATE minimal SET doc = JSON_SET(doc, '$.whole', 18446744073709551615) WHERE id = 7
SET SESSION binlog_row_image = NOBLOB
UPDATE noblob SET doc = JSON_SET(doc, '$.a', 1) WHERE id <= 4
UPDATE noblob SET doc = JSON_REMOVE(doc, '$.in.list[0]') WHERE id = 2
UPDATE noblob SET doc = JSON_REPLACE(doc, '$.in.list[last]', 4), n = 7 WHERE id = 2
UPDATE noblob SET id = 11, doc = JSON_SET(doc, '$.a', 'moved') WHERE id = 1
