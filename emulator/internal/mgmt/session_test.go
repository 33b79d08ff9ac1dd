package mgmt

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestRefusedCommandsChangeNothing: a command that is refused, for its text, for a name or
// for who asks, leaves the schema as it was; the same command of an admin makes a new one.
func TestRefusedCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	s, err := LoadSchema(strings.NewReader(`{"databases": {"D": {"admins": ["admin"], "tables": {"T": {"columns": "a:long"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var catalog Catalog
	catalog.Set(s, time.Time{})
	run := func(caller string, readOnly bool, text string) error {
		se := &Session{Catalog: &catalog, Caller: caller, ReadOnly: readOnly}
		if bad := se.Open("d", true); bad != nil {
			return bad
		}
		_, _, err := se.Run(text)
		return err
	}
	f := func(caller string, readOnly bool, text string, status int) {
		t.Helper()
		err := run(caller, readOnly, text)
		var bad *Refusal
		if err == nil || status != 0 && (!errors.As(err, &bad) || bad.Status != status) {
			t.Errorf("%s: %v, want status %d", text, err, status)
		}
		if catalog.latest() != s {
			t.Fatalf("%s: the schema was changed", text)
		}
	}
	const create = ".create table U (b:string)"
	f("other", false, create, http.StatusForbidden)
	f("admin", true, create, http.StatusBadRequest)
	f("admin", false, ".create-merge table T (a:string)", http.StatusBadRequest)
	f("admin", false, ".alter table Nope policy streamingingestion enable", http.StatusBadRequest)
	f("admin", false, ".create table U (b:nothing)", 0)
	f("admin", false, ".create table U (b:string c:long)", 0)
	f("admin", false, ".add table T ingestors ('aadapp=a' 'aadapp=b')", 0)
	f("admin", false, "create table U (b:string)", 0)
	if err := run("admin", false, create); err != nil || catalog.latest() == s || catalog.latest().Databases["D"].Tables["U"] == nil {
		t.Errorf("the admin's command: %v", err)
	}
}

// TestReadOnlyClearIsRefused: a read-only request may not clear the cache, also of a database
// that no schema names.
func TestReadOnlyClearIsRefused(t *testing.T) {
	t.Parallel()
	var catalog Catalog
	catalog.Set(nil, time.Time{})
	se := &Session{Catalog: &catalog, ReadOnly: true}
	if bad := se.Open("any", true); bad != nil {
		t.Fatal(bad)
	}
	var bad *Refusal
	if _, _, err := se.Run(".clear database cache streamingingestion schema"); !errors.As(err, &bad) || bad.Code != "BadRequest_RequestReadonly" {
		t.Errorf("got %v", err)
	}
}

// TestShownDatabaseIsTheNamedOne: in an open schema a database that it does not have is shown as an
// empty one, without anything of the database of the request.
func TestShownDatabaseIsTheNamedOne(t *testing.T) {
	t.Parallel()
	s, err := LoadSchema(strings.NewReader(`{"open": true, "databases": {"D": {"streaming": false, "ingestors": ["agent"], "tables": {"Cats": {"columns": "a:long"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var catalog Catalog
	catalog.Set(s, time.Time{})
	for what, of := range map[string]string{"schema as json": "Cats", "policy streamingingestion": "false", "principals": "agent"} {
		shown := func(database string) string {
			se := &Session{Catalog: &catalog}
			if bad := se.Open("D", true); bad != nil {
				t.Fatal(bad)
			}
			r, _, err := se.Run(".show database " + database + " " + what)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%s", r.Rows)
		}
		if got := shown("D"); !strings.Contains(got, of) {
			t.Errorf("%s: got %s, want %s in it", what, got, of)
		}
		if got := shown("Other"); strings.Contains(got, of) {
			t.Errorf("%s of another database: got %s", what, got)
		}
	}
}

// TestCommandsChangeTheNamedDatabase: a command about a database changes the one that it names, for
// those who may change that one, and leaves the database of the request as it is.
func TestCommandsChangeTheNamedDatabase(t *testing.T) {
	t.Parallel()
	s, err := LoadSchema(strings.NewReader(`{"databases": {"D": {"admins": ["one"], "ingestors": []}, "Other": {"admins": ["two"], "viewers": ["one"], "ingestors": []}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var catalog Catalog
	catalog.Set(s, time.Time{})
	run := func(caller, text string) (string, error) {
		se := &Session{Catalog: &catalog, Caller: caller}
		se.Schema, se.DatabaseName, se.db = s, "D", s.Databases["D"]
		r, _, err := se.Run(text)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s", r.Rows), nil
	}
	changed := func(text, want string) {
		t.Helper()
		if _, err := run("one", text); err == nil || catalog.latest() != s {
			t.Errorf("%s of one who may change the database of the request alone: %v", text, err)
		}
		got, err := run("two", text)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, %v, want %s in it", text, got, err, want)
		}
		if before, now := s.Databases["D"], catalog.latest().Databases["D"]; !reflect.DeepEqual(before, now) {
			t.Errorf("%s: the database of the request was %+v and is %+v", text, before, now)
		}
		s = catalog.latest()
	}
	changed(".alter database other policy streamingingestion disable", `[Other]`)
	if p := s.Databases["Other"].Streaming; p == nil || *p {
		t.Error(".alter did not change the policy")
	}
	changed(".delete database Other policy streamingingestion", `[Other]`)
	if s.Databases["Other"].Streaming != nil {
		t.Error(".delete did not remove the policy")
	}
	changed(".add database Other ingestors ('aadapp=agent')", "agent")
	var bad *Refusal
	if _, err := run("one", ".alter database Nope policy streamingingestion disable"); !errors.As(err, &bad) || bad.Code != "BadRequest_EntityNotFound" {
		t.Errorf("a database that does not exist: %v", err)
	}
	if _, err := run("one", ".delete cluster D policy streamingingestion"); err == nil {
		t.Error("what is neither a table nor a database has a policy")
	}
}
