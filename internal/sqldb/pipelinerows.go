package sqldb

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// pipelineRows are the rows of the last statement of a batch. It implements driver.Rows.
type pipelineRows struct {
	pipe    *pipeline
	results pgx.BatchResults
	rows    pgx.Rows
	types   []*pgtype.Type // of the columns, nil before the first row; nil entries are texts
	ahead   bool           // rows is already at the next row
	more    bool           // rows has a row
}

// Columns implements driver.Rows.
func (r *pipelineRows) Columns() []string {
	fields := r.rows.FieldDescriptions()
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// Close implements driver.Rows. It skips the remaining rows.
func (r *pipelineRows) Close() error {
	r.rows.Close()
	return r.pipe.fail(errors.Join(r.rows.Err(), r.results.Close()))
}

// Next implements driver.Rows.
func (r *pipelineRows) Next(row []driver.Value) (err error) {
	if !r.ahead {
		r.more = r.rows.Next()
	}
	r.ahead = false
	if !r.more {
		if err := r.rows.Err(); err != nil {
			return r.pipe.fail(err)
		}
		return io.EOF
	}
	fields := r.rows.FieldDescriptions()
	types := r.pipe.Conn.Conn().TypeMap()
	if r.types == nil {
		r.types = make([]*pgtype.Type, len(fields))
		for i, f := range fields {
			r.types[i], _ = types.TypeForOID(f.DataTypeOID)
		}
	}
	for i, raw := range r.rows.RawValues() {
		switch {
		case raw == nil:
			row[i] = nil
		case r.types[i] == nil:
			row[i] = string(raw)
		default:
			row[i], err = r.types[i].Codec.DecodeDatabaseSQLValue(types, fields[i].DataTypeOID, fields[i].Format, raw)
		}
		if err != nil {
			return fmt.Errorf("decode column %s: %w", fields[i].Name, err)
		}
	}
	return nil
}
