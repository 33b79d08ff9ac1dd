package telemetry

import (
	"maps"
	"net/url"
	"strconv"
	"strings"
)

// selection is what a reader of the page wants to see of it, as the query of a link to the page. What
// has its default is not in it.
type selection struct {
	url.Values // q: what inputs, routes and files have to contain; the name of a list: its page, from 2; pause
}

const maxQueryText = 200

// readSelection returns what the query of a request to the page selects: the search text, the page
// numbers of the lists, and whether the page is paused. Invalid parts get their default, so that a
// link that was cut off still works.
func readSelection(values url.Values) selection {
	q := selection{url.Values{}}
	if text := strings.TrimSpace(values.Get("q")); text != "" && len(text) <= maxQueryText {
		q.Set("q", text)
	}
	for _, list := range []string{"inputs", "routes", "files"} {
		if n, err := strconv.Atoi(values.Get(list)); err == nil && n > 1 {
			q.Set(list, strconv.Itoa(n))
		}
	}
	if values.Get("pause") != "" {
		q.Set("pause", "1")
	}
	return q
}

// String returns the selection as the query of a link to the page, with the question mark.
func (q selection) String() string { return "?" + q.Encode() }

// With returns the selection with another value of one of its parts.
func (q selection) With(part, value string) selection {
	changed := maps.Clone(q.Values)
	changed.Set(part, value)
	return readSelection(changed)
}

// All returns the first pages of everything, paused if q is.
func (q selection) All() selection { return readSelection(url.Values{"pause": q.Values["pause"]}) }

func (q selection) Text() string { return q.Get("q") }
func (q selection) Paused() bool { return q.Has("pause") }

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
// case. A page beyond the last is the last one. words returns the texts of a row that are searched.
// name is what the page calls the rows, such as "routes".
func listed[T any](name string, all []T, q selection, words func(T) []string) listing[T] {
	found := all
	if text := strings.ToLower(q.Text()); text != "" {
		found = nil
		for _, row := range all {
			if strings.Contains(strings.ToLower(strings.Join(words(row), " ")), text) {
				found = append(found, row)
			}
		}
	}
	pages := max(1, (len(found)+pageRows-1)/pageRows)
	page, _ := strconv.Atoi(q.Get(name)) // 0: the first
	at := min(max(1, page), pages)
	first := (at - 1) * pageRows
	out := listing[T]{Name: name, Rows: found[first:min(first+pageRows, len(found))], Found: len(found), All: len(all)}
	if len(out.Rows) > 0 {
		out.From, out.To = first+1, first+len(out.Rows)
	}
	if at > 1 {
		out.Earlier = q.With(name, strconv.Itoa(at-1)).String()
	}
	if at < pages {
		out.Later = q.With(name, strconv.Itoa(at+1)).String()
	}
	return out
}

// inputsOf returns the page of the table of inputs that q selects. The text of q is searched for in
// the name, the table and the format.
func inputsOf(s *Status, q selection) listing[Input] {
	return listed("inputs", s.Inputs, q, func(in Input) []string {
		return []string{in.Name, in.Database + "." + in.Table, in.Format}
	})
}

// routesOf returns the page of the table of routes that q selects, the worst states first. The text
// of q is searched for in table, format, mapping, cluster and state.
func routesOf(s *Status, q selection) listing[Route] {
	return listed("routes", WorstFirst(s.Routes), q, func(r Route) []string {
		return []string{r.Database + "." + r.Table, r.Format, r.Mapping, r.Cluster, r.State}
	})
}

// filesOf returns the page of the table of files that q selects. The text of q is searched for in
// path, input, state and the reason why a file is not read on.
func filesOf(s *Status, q selection) listing[File] {
	return listed("files", s.Files, q, func(f File) []string {
		return []string{f.Path, f.Input, f.State, f.Why}
	})
}
