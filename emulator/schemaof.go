package emulator

import (
	"fmt"
	"time"
)

// SetSchema replaces the schema; requests see it after SchemaDelay or after
// ClearSchemaCache. Nil makes every name exist. Stored rows stay.
func (s *Server) SetSchema(schema *Schema) error {
	if err := schema.check(); err != nil {
		return fmt.Errorf("check schema: %w", err)
	}
	s.catalog.set(schema, time.Now().Add(s.opt.SchemaDelay))
	return nil
}

// ClearSchemaCache makes the newest schema seen at once, as the management
// command for the streaming schema cache does.
func (s *Server) ClearSchemaCache() { s.catalog.clear() }
