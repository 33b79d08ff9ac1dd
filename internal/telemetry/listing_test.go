package telemetry

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSelections(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := readSelection(values).String(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	f("", "?")
	f("q=+a%26b+&files=3&inputs=1&routes=2&pause=1&else=7", "?files=3&pause=1&q=a%26b&routes=2")
	f("files=-1&routes=many&inputs=99999999999999999999", "?")
	f("q="+strings.Repeat("a", maxQueryText+1), "?")
}

// TestEveryRowIsOnOnePage: who follows the links from the first page meets each row
// once, in its order.
func TestEveryRowIsOnOnePage(t *testing.T) {
	for _, n := range []int{0, 1, pageRows - 1, pageRows, pageRows + 1, 3 * pageRows, 3*pageRows + 1} {
		s := &Status{}
		var want []string
		for i := range n {
			path := fmt.Sprintf("/var/log/App%d.log", i)
			s.Files = append(s.Files, File{Path: path}, File{Path: "/else"})
			want = append(want, path)
		}
		var got []string
		sel := readSelection(url.Values{"q": {"aPP"}})
		for {
			page := filesOf(s, sel)
			if page.Found != n || page.All != 2*n || len(page.Rows) > pageRows || len(page.Rows) > 0 && (page.From != len(got)+1 || page.To != len(got)+len(page.Rows)) {
				t.Fatalf("%d rows: %+v", n, page)
			}
			for _, f := range page.Rows {
				got = append(got, f.Path)
			}
			if page.Later == "" {
				break
			}
			values, err := url.ParseQuery(strings.TrimPrefix(page.Later, "?"))
			if err != nil {
				t.Fatal(err)
			}
			sel = readSelection(values)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d rows: got %q", n, got)
		}
		sel = sel.With("files", "1000")
		if last := filesOf(s, sel); last.To != n || last.Later != "" {
			t.Errorf("%d rows: behind the last page: %+v", n, last)
		}
	}
}

// TestAPageOfManyIsSmall: 10,000 files and 200 routes, and what is wrong among them first.
func TestAPageOfManyIsSmall(t *testing.T) {
	all := scenes(time.Now())
	s := all[len(all)-1].server()
	page := get(s, "/").Body.String()
	if len(page) > 200_000 || strings.Count(page, "<tr>") > 4*(pageRows+1) {
		t.Errorf("%d bytes, %d rows", len(page), strings.Count(page, "<tr>"))
	}
	if at := strings.Index(page, `class="pill retrying"`); at < 0 || at > strings.Index(page, `class="pill up"`) {
		t.Error("the route that fails is not the first")
	}
	if found := get(s, "/?q=pod-09999_").Body.String(); strings.Count(found, "namespace_pod-") != 1 || !strings.Contains(found, "None of 203 routes has it.") {
		t.Error("the filter does not find one file of 10,000")
	}
	many := &Status{}
	for i := range 20 {
		many.Routes = append(many.Routes, Route{Table: fmt.Sprint(i), State: Held, Hold: &Hold{Message: "no"}})
	}
	if v := viewOf(many, nil, time.Now(), readSelection(nil)); len(v.Broken) != shownTroubles || v.More != 20-shownTroubles {
		t.Errorf("%d troubles in full, %d more", len(v.Broken), v.More)
	}
}

// TestTheConfigurationIsText that no browser takes for a page.
func TestTheConfigurationIsText(t *testing.T) {
	all := scenes(time.Now())
	s := all[0].server()
	w := get(s, "/config")
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || !strings.Contains(w.Body.String(), "cluster: https://") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if !strings.Contains(get(s, "/").Body.String(), `href="/config"`) {
		t.Error("the page has no link to it")
	}
	s.opts.Configuration = nil
	if w := get(s, "/config"); w.Code != 404 || strings.Contains(get(s, "/").Body.String(), "/config") {
		t.Errorf("without one: %d", w.Code)
	}
}
