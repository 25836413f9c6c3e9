// Decodes a binlog file with go-mysql and prints what it found: decode FILE quick|full.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/go-mysql-org/go-mysql/replication"
)

// Found is compared with what other decoders find.
type Found struct {
	Inserts  int64 `json:"inserts"`
	Updates  int64 `json:"updates"`
	Deletes  int64 `json:"deletes"`
	IntSum   int64 `json:"int_sum"`
	TextSize int64 `json:"text_size"`
	ByteSum  int64 `json:"byte_sum"`
}

func (f *Found) image(row []any, full bool) error {
	for _, value := range row {
		switch v := value.(type) {
		case int32:
			f.IntSum += int64(v)
		case string:
			f.TextSize += int64(len(v))
			if full {
				for i := 0; i < len(v); i++ {
					f.ByteSum += int64(v[i])
				}
			}
		default:
			return fmt.Errorf("a value of type %T", value)
		}
	}
	return nil
}

func main() {
	full := os.Args[2] == "full"
	var found Found
	parser := replication.NewBinlogParser()
	parser.SetFlavor("mariadb")
	// ParseFile does the same without a buffer: two calls of the system for each event.
	file, err := os.Open(os.Args[1])
	if err == nil {
		_, err = file.Seek(int64(len(replication.BinLogFileHeader)), io.SeekStart)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	err = parser.ParseReader(bufio.NewReaderSize(file, 1<<18), func(event *replication.BinlogEvent) error {
		rows, ok := event.Event.(*replication.RowsEvent)
		if !ok {
			return nil
		}
		switch rows.Type() {
		case replication.EnumRowsEventTypeInsert:
			found.Inserts += int64(len(rows.Rows))
		case replication.EnumRowsEventTypeUpdate:
			found.Updates += int64(len(rows.Rows) / 2)
		case replication.EnumRowsEventTypeDelete:
			found.Deletes += int64(len(rows.Rows))
		}
		for _, row := range rows.Rows {
			if err := found.image(row, full); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
