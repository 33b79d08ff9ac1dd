// Package mgmt is the schema of the emulator and the management commands that show and
// change it: a command does what the service is documented to do, or is refused in the
// service's words, and a refused command changes nothing.
package mgmt

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"kusto-agent/emulator/internal/kql"
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
	Failures(database, principal string) *Result
	Statistics(database, principal string) *Result
}

// Session is one database as one principal sees it: what a command shows and changes.
type Session struct {
	Host         host
	Catalog      *Catalog
	Delay        time.Duration // until ingestion sees a change
	Caller       string        // client id
	DatabaseName string        // as the schema spells it
	Schema       *Schema
	db           *Database // nil: every name exists in it
	ReadOnly     bool
}

// Refusal is why a command is not run, in the words of the service.
type Refusal struct {
	Status                     int
	Code, Message, Typ, Detail string
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

// fault is what a command ends with that is refused; Run returns the refusal.
func (r *Refusal) fault() kql.Fault { return kql.Fault{Err: r} }

// Wrong returns the refusal of a command that is invalid.
func Wrong(code, detail string) *Refusal {
	return &Refusal{http.StatusBadRequest, code, "Request is invalid and cannot be executed.", "Kusto.Data.Exceptions.KustoBadRequestException", detail}
}

// Unknown returns the refusal of a command that names an entity of this kind that does not exist.
func Unknown(kind, name string) *Refusal {
	r := Wrong("BadRequest_EntityNotFound", fmt.Sprintf("Entity ID '%s' of kind '%s' was not found.", name, kind))
	r.Typ = "Kusto.Data.Exceptions.EntityNotFoundException"
	return r
}

// Denied returns the refusal of a principal that may not do the operation on the resource.
func Denied(principal, operation, resource string) *Refusal {
	return &Refusal{http.StatusForbidden, "Forbidden", "Caller is not authorized to perform this action", "Kusto.DataNode.Exceptions.AuthorizationException",
		fmt.Sprintf("Forbidden: Caller is not authorized to perform this action: Principal '%s' is not authorized to perform operation '%s' on '%s'.", principal, operation, resource)}
}

// Open sets the session's database and its newest schema. It returns a refusal when the database does
// not exist (an empty name is accepted unless must is true), or when the caller may not read it; nil
// when the session can be used.
func (se *Session) Open(name string, must bool) *Refusal {
	se.Schema = se.Catalog.latest()
	se.DatabaseName, se.db = name, nil
	if se.Schema != nil {
		if n, db := se.Schema.Database(name); db != nil {
			se.DatabaseName, se.db = n, db
		} else if !se.Schema.Open && (name != "" || must) {
			return Unknown("Database", name)
		}
	}
	if db := se.db; db != nil && db.Viewers != nil && !se.has(db.Viewers) && !se.has(db.Admins) {
		return Denied("aadapp="+se.Caller, "DatabaseView", se.DatabaseName)
	}
	return nil
}

// has reports whether the caller is in the list.
func (se *Session) has(list []string) bool { return list != nil && slices.Contains(list, se.Caller) }

// mayChange panics with a kql.Fault, which ends the command with a refusal, unless the caller may
// change the database: as its admin, as one of ingestors (nil where the operation does not accept
// them), or because the database has no list of admins. A read-only session may not change anything.
// operation is named in the refusal.
func (se *Session) mayChange(operation string, ingestors []string) {
	switch db := se.db; {
	case se.ReadOnly:
		panic(Wrong("BadRequest_RequestReadonly", "The request is marked as readonly (request_readonly), and may not change anything.").fault())
	case db != nil && db.Admins != nil && !se.has(db.Admins) && !se.has(ingestors):
		panic(Denied("aadapp="+se.Caller, operation, se.DatabaseName).fault())
	}
}

// database returns the session's database, or an empty one when it is not in the schema.
func (se *Session) database() *Database { return cmp.Or(se.db, &Database{}) }

// TableOf returns a table of the session's database; nil when the schema has none of this name.
func (se *Session) TableOf(name string) *Table { return se.database().Tables[name] }

// TableCount is the number of rows and requests of one table.
type TableCount struct {
	Database string `json:"database"`
	Table    string `json:"table"`
	Rows     int    `json:"rows"`      // visible now
	Requests int    `json:"requests"`  // that stored rows
	RawBytes int64  `json:"raw_bytes"` // of their bodies, decoded
}
