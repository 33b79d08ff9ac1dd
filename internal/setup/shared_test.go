package setup

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/config"
)

// answers starts a service that has these tables to show, by the command: the names of the columns,
// then the rows. Every other command shows nothing.
func answers(t *testing.T, shown map[string][][]string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ CSL string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		type column struct{ ColumnName, ColumnType string }
		table := struct {
			TableName string
			Columns   []column
			Rows      [][]string
		}{TableName: "Table_0", Columns: []column{}, Rows: [][]string{}}
		if rows := shown[asked.CSL]; rows != nil {
			for _, name := range rows[0] {
				table.Columns = append(table.Columns, column{name, "string"})
			}
			table.Rows = rows[1:]
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Tables": []any{table}})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestMappingOfTheDatabaseBehindOneOfTheTable: of two inputs of one table, one has a mapping of the
// table and one a mapping of the database. Both are there, and none is made in front of the latter.
func TestMappingOfTheDatabaseBehindOneOfTheTable(t *testing.T) {
	t.Parallel()
	const elements = `[{"column":"n","Properties":{"Path":"$.n"}}]`
	url := answers(t, map[string][][]string{
		".show tables":                                   {{"TableName"}, {"T"}},
		".show table ['T'] schema as json":               {{"Schema"}, {`{"OrderedColumns":[{"Name":"n","CslType":"long"}]}`}},
		".show table ['T'] policy streamingingestion":    {{"Policy"}, {`{"IsEnabled": true}`}},
		".show table ['T'] ingestion mappings":           {{"Kind", "Name", "Mapping"}, {"Json", "own", elements}},
		".show database ['D'] ingestion mappings":        {{"Kind", "Name", "Mapping"}, {"Json", "common", elements}},
		".show database ['D'] policy streamingingestion": {{"Policy"}, {"null"}},
	})
	dir := t.TempDir()
	for _, name := range []string{"a.json", "b.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{\"n\":1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := "cluster: " + url + "\ndatabase: D\nauth: {method: none}\nstate_dir: " + dir + "/state\ninputs:\n" +
		"- {name: a, paths: [" + dir + "/a.json], table: T, mapping: own}\n" +
		"- {name: b, paths: [" + dir + "/b.json], table: T, mapping: common}\n"
	cfg, err := config.Parse("agent.yaml", []byte(text), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plans, err := (&Setup{}).Plans(t.Context(), cfg)
	if err != nil || len(plans) != 2 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	for _, p := range plans {
		for _, step := range p.Steps {
			t.Errorf("mapping %s: %s", p.Route.Mapping, strings.TrimSpace(step.Text))
		}
	}
}
