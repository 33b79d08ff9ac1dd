package emulator

import (
	"fmt"
	"io"
	"time"

	"kusto-agent/emulator/internal/mgmt"
)

// What a strict server knows, and what it holds; package documentation shows the JSON of a
// Schema, which must not be changed after it was given to a Server.
type (
	Schema        = mgmt.Schema
	Database      = mgmt.Database
	Table         = mgmt.Table
	Columns       = mgmt.Columns
	Column        = mgmt.Column
	Mapping       = mgmt.Mapping
	MappingColumn = mgmt.MappingColumn
	TableCount    = mgmt.TableCount
)

// LoadSchema reads the JSON form. Unknown keys, types and columns are errors.
func LoadSchema(r io.Reader) (*Schema, error) { return mgmt.LoadSchema(r) }

// SetSchema replaces the schema. Requests see the new one after SchemaDelay or after ClearSchemaCache;
// nil makes every name exist. Stored rows stay. An invalid schema is an error and changes nothing.
func (s *Server) SetSchema(schema *Schema) error {
	if err := schema.Check(); err != nil {
		return fmt.Errorf("check schema: %w", err)
	}
	s.catalog.Set(schema, time.Now().Add(s.opt.SchemaDelay))
	return nil
}

// ClearSchemaCache makes the newest schema seen at once, as the management
// command for the streaming schema cache does.
func (s *Server) ClearSchemaCache() { s.catalog.Clear() }
