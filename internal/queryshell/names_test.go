package queryshell

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestNamesOfAnotherDatabase: names of a database are offered until those of another one are asked
// for, also if these cannot be read.
func TestNamesOfAnotherDatabase(t *testing.T) {
	var shut atomic.Bool // nothing can be read
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if shut.Load() || strings.Contains(string(body), "Shut") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		type named struct{ ColumnName, ColumnType string }
		type table struct {
			TableName string
			Columns   []named
			Rows      [][]string
		}
		_ = json.NewEncoder(w).Encode(map[string][]table{"Tables": {{"Table_0", []named{{"DatabaseSchema", "string"}}, [][]string{{`{"Databases":{"Open":{"Tables":{"T":{}}}}}`}}}}})
	}))
	defer web.Close()
	a := &Shell{Target: Target{Cluster: web.URL, Auth: "none", IsSet: func(string) bool { return false }}}
	var err error
	if a.to, err = a.Target.connect(); err != nil {
		t.Fatal(err)
	}
	defer a.to.Close()
	n := &names{a: a}
	f := func(what, database string, want bool) {
		t.Helper()
		n.learn(t.Context(), database)
		<-n.done
		if s := n.schema; (s != nil) != want || want && (len(s.Tables) != 1 || s.Tables[0].Name != "T") {
			t.Errorf("%s: %+v", what, s)
		}
	}
	f("a database", "Open", true)
	f("one that cannot be read", "Shut", false)
	f("the first again", "Open", true)
	shut.Store(true)
	f("the same, which cannot be read now", "Open", true)
	n.stop()
}
