package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// host is what commands need of the emulator besides the schema.
type host interface {
	Tables() []TableCount
	RowCount(database, table string) int
	// Stored counts rows also before a query can see them.
	Stored(database, table string) int
	Drop(database, table string)
	Cancel(requestID string) bool
	// Failures and Statistics are tables about requests of ingestion.
	Failures(database, principal string) *answer
	Statistics(database, principal string) *answer
}

// access is one database as one principal sees it: what a command shows and changes.
type access struct {
	host         host
	catalog      *catalog
	delay        time.Duration // until ingestion sees a change
	caller       string        // client id
	databaseName string        // as the schema spells it
	schema       *Schema
	db           *Database // nil: every name exists in it
	readOnly     bool
}

// refused is why a command is not run, in the words of the service.
type refused struct {
	status                     int
	code, message, typ, detail string
}

func (r *refused) Error() string { return r.code + ": " + r.detail }

// wrongText is a refusal of what was asked.
func wrongText(code, detail string) *refused {
	return &refused{http.StatusBadRequest, code, "Request is invalid and cannot be executed.", "Kusto.Data.Exceptions.KustoBadRequestException", detail}
}

// unknown is a refusal of a name that does not exist.
func unknown(kind, name string) *refused {
	r := wrongText("BadRequest_EntityNotFound", fmt.Sprintf("Entity ID '%s' of kind '%s' was not found.", name, kind))
	r.typ = "Kusto.Data.Exceptions.EntityNotFoundException"
	return r
}

// denied is a refusal of a principal.
func denied(principal, operation, resource string) *refused {
	return &refused{http.StatusForbidden, "Forbidden", "Caller is not authorized to perform this action", "Kusto.DataNode.Exceptions.AuthorizationException",
		fmt.Sprintf("Forbidden: Caller is not authorized to perform this action: Principal '%s' is not authorized to perform operation '%s' on '%s'.", principal, operation, resource)}
}

// open finds the database, and sees that the caller may read it. With must, the name may not be empty. The schema is
// the newest: only streaming nodes see it late.
func (se *access) open(name string, must bool) *refused {
	se.schema = se.catalog.latest()
	se.databaseName = name
	if se.schema != nil {
		if n, db := se.schema.database(name); db != nil {
			se.databaseName, se.db = n, db
		} else if !se.schema.Open && (name != "" || must) {
			return unknown("Database", name)
		}
	}
	if db := se.db; db != nil && db.Viewers != nil && !se.has(db.Viewers) && !se.has(db.Admins) {
		return denied("aadapp="+se.caller, "DatabaseView", se.databaseName)
	}
	return nil
}

func (se *access) has(list []string) bool { return list != nil && slices.Contains(list, se.caller) }

// mayChange sees that the principal may change the database, or the table where
// being its ingestor is enough.
func (se *access) mayChange(operation string, ingestors []string) *refused {
	switch db := se.db; {
	case se.readOnly:
		return wrongText("BadRequest_RequestReadonly", "The request is marked as readonly (request_readonly), and may not change anything.")
	case db == nil, db.Admins == nil, se.has(db.Admins), se.has(ingestors):
		return nil
	}
	return denied("aadapp="+se.caller, operation, se.databaseName)
}

func (se *access) table(name string) *Table {
	if se.db == nil {
		return nil
	}
	return se.db.Tables[name]
}

// TableCount says what one table holds.
type TableCount struct {
	Database string `json:"database"`
	Table    string `json:"table"`
	Rows     int    `json:"rows"`      // visible now
	Requests int    `json:"requests"`  // that stored rows
	RawBytes int64  `json:"raw_bytes"` // of their bodies, decoded
}
