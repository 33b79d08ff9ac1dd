package emulator

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"kusto-agent/emulator/internal/mgmt"
)

//go:embed index.html
var indexText string

var indexPage = template.Must(template.New("index").Parse(indexText))

// indexView is what the index shows to a browser.
type indexView struct {
	Here          string
	Headline      string
	Names, Tokens string // in a sentence: which names exist, who gets a token
	Tables        []tableView
	Requests      []Request // the newest first, some of them
	Faults        int
}

// tableView is a table of the index.
type tableView struct {
	TableCount
	Link    string
	Columns string   // as in a command; empty: rows are kept as they were sent
	Last    []string // rows, as JSON
}

// What the index shows at most.
const (
	lastRows     = 3
	lastRequests = 20
	longRow      = 400
)

// getIndex answers with the list of tables: an HTML page for a browser, else a text table.
func (s *Server) getIndex(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", htmlType)
		indexPage.Execute(w, s.indexView(r)) // an error means that the reader left
		return
	}
	w.Header().Set("Content-Type", textType)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	write := func(cells ...string) { tw.Write([]byte(strings.Join(cells, "\t") + "\n")) }
	write("DATABASE", "TABLE", "ROWS", "REQUESTS", "LOOK")
	for _, t := range s.Tables() {
		write(t.Database, t.Table, strconv.Itoa(t.Rows), strconv.Itoa(t.Requests), hereURL(r)+rowsLink(t))
	}
	tw.Flush()
}

func rowsLink(t TableCount) string {
	return "/rows?db=" + url.QueryEscape(t.Database) + "&table=" + url.QueryEscape(t.Table) + "&limit=1000"
}

// indexView collects what the HTML index shows: totals, tables with their last rows, the last
// requests, and how many faults are in effect.
func (s *Server) indexView(r *http.Request) indexView {
	schema := s.catalog.Current()
	v := indexView{Here: hereURL(r), Names: names(schema), Tokens: "No token is needed.", Faults: len(s.faults.all())}
	if s.opt.TokenSecret != "" {
		v.Tokens = "A token is needed; " + v.Here + " issues them for the client secret of --token-secret, for any tenant and client id."
	}
	rows := 0
	for _, t := range s.Tables() {
		rows += t.Rows
		v.Tables = append(v.Tables, s.tableView(t, schema))
	}
	v.Requests = s.Requests()
	slices.Reverse(v.Requests)
	v.Requests = v.Requests[:min(len(v.Requests), lastRequests)]
	totals, refused := s.Totals(), 0
	for status, n := range totals.ByStatus {
		if status != http.StatusOK {
			refused += n
		}
	}
	v.Headline = fmt.Sprintf("%s in %s; %s, %d of them not accepted.", counted(rows, "row"), counted(len(v.Tables), "table"), counted(totals.Requests, "request"), refused)
	return v
}

// names returns a sentence about which databases, tables and mappings exist under the schema.
func names(schema *Schema) string {
	switch {
	case schema == nil || schema.Open:
		return "Every database, table and mapping exists."
	case schema.AnyDatabase:
		return "Every database exists, and the tables and mappings that commands made."
	}
	return "What the schema does not name and no command made is unknown."
}

// tableView returns what the index shows of a table: its columns and its last rows, each cut to
// longRow bytes.
func (s *Server) tableView(t TableCount, schema *Schema) tableView {
	v := tableView{TableCount: t, Link: rowsLink(t)}
	if schema != nil {
		if _, db := schema.Database(t.Database); db != nil && db.Tables[t.Table] != nil {
			v.Columns = columnText(db.Tables[t.Table].Columns)
		}
	}
	for row := range s.All(t.Database, t.Table, max(0, t.Rows-lastRows)) {
		text, err := row.MarshalJSON()
		if err != nil {
			continue // it is no JSON, and shown only by /rows with format=text
		}
		line := strings.ToValidUTF8(string(text[:min(len(text), longRow)]), "")
		if len(text) > longRow {
			line += "…"
		}
		v.Last = append(v.Last, line)
	}
	return v
}

// columnText returns columns as name: type, ….
func columnText(columns mgmt.Columns) string {
	var all []string
	for _, c := range columns {
		all = append(all, c.Name+": "+c.Type)
	}
	return strings.Join(all, ", ")
}

// counted returns a number and its noun, in singular or plural.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
