package telemetry

import (
	"net/url"
	"strconv"
	"strings"
)

// selection is what a reader of the page wants to see of it.
type selection struct {
	Text                  string // what inputs, routes and files have to contain
	Inputs, Routes, Files int    // the pages of the lists, from 1
	Paused                bool   // the page stays as it is
}

const maxQueryText = 200

// readSelection returns what the query of a request to the page selects: the search text, the page
// numbers of the lists, and whether the page is paused. Missing or invalid parts get their default,
// so that a link that was cut off still works.
func readSelection(values url.Values) selection {
	number := func(name string) int {
		n, err := strconv.Atoi(values.Get(name))
		if err != nil || n < 1 {
			return 1
		}
		return n
	}
	text := strings.TrimSpace(values.Get("q"))
	if len(text) > maxQueryText {
		text = ""
	}
	return selection{Text: text, Inputs: number("inputs"), Routes: number("routes"), Files: number("files"), Paused: values.Get("pause") != ""}
}

// String returns the selection as the query of a link to the page, with the question mark. Defaults
// are left out.
func (q selection) String() string {
	v := url.Values{}
	if q.Text != "" {
		v.Set("q", q.Text)
	}
	for name, page := range map[string]int{"inputs": q.Inputs, "routes": q.Routes, "files": q.Files} {
		if page > 1 {
			v.Set(name, strconv.Itoa(page))
		}
	}
	if q.Paused {
		v.Set("pause", "1")
	}
	return "?" + v.Encode()
}

func (q selection) pausing(paused bool) selection {
	q.Paused = paused
	return q
}

// all is the query without the text.
func (q selection) all() selection {
	return selection{Inputs: 1, Routes: 1, Files: 1, Paused: q.Paused}
}

// listing is one page of a list.
type listing[T any] struct {
	Rows       []T
	From, To   int // the first and last row, from 1
	Found, All int
	Name       string
	Earlier    string // the query of the page before; empty: this is the first
	Later      string
}

const pageRows = 50

// listed returns one page (pageRows rows) of the rows that contain the text of q in any letter
// case. page returns where a selection keeps the page number of this list; a page beyond the last
// is the last one. words returns the texts of a row that are searched. name is what the
// page calls the rows, such as "routes".
func listed[T any](name string, all []T, q selection, page func(*selection) *int, words func(T) []string) listing[T] {
	found := all
	if q.Text != "" {
		text := strings.ToLower(q.Text)
		found = nil
		for _, row := range all {
			if strings.Contains(strings.ToLower(strings.Join(words(row), " ")), text) {
				found = append(found, row)
			}
		}
	}
	pages := max(1, (len(found)+pageRows-1)/pageRows)
	at := min(*page(&q), pages)
	first := (at - 1) * pageRows
	out := listing[T]{Name: name, Rows: found[first:min(first+pageRows, len(found))], Found: len(found), All: len(all)}
	if len(out.Rows) > 0 {
		out.From, out.To = first+1, first+len(out.Rows)
	}
	link := func(n int) string {
		q := q
		*page(&q) = n
		return q.String()
	}
	if at > 1 {
		out.Earlier = link(at - 1)
	}
	if at < pages {
		out.Later = link(at + 1)
	}
	return out
}

// inputsOf returns the page of the table of inputs that q selects. The text of q is searched for in
// the name, the table and the format.
func inputsOf(s *Status, q selection) listing[Input] {
	return listed("inputs", s.Inputs, q, func(q *selection) *int { return &q.Inputs }, func(in Input) []string {
		return []string{in.Name, in.Database + "." + in.Table, in.Format}
	})
}

// routesOf returns the page of the table of routes that q selects, the worst states first. The text
// of q is searched for in table, format, mapping, cluster and state.
func routesOf(s *Status, q selection) listing[Route] {
	return listed("routes", WorstFirst(s.Routes), q, func(q *selection) *int { return &q.Routes }, func(r Route) []string {
		return []string{r.Database + "." + r.Table, r.Format, r.Mapping, r.Cluster, r.State}
	})
}

// filesOf returns the page of the table of files that q selects. The text of q is searched for in
// path, input, state and the reason why a file is not read on.
func filesOf(s *Status, q selection) listing[File] {
	return listed("files", s.Files, q, func(q *selection) *int { return &q.Files }, func(f File) []string {
		return []string{f.Path, f.Input, f.State, f.Why}
	})
}
