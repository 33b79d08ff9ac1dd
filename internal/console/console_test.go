package console

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const schemaText = `{"Databases":{"Logs":{"Name":"Logs","Tables":{
	"StormEvents":{"Name":"StormEvents","OrderedColumns":[{"Name":"StartTime","CslType":"datetime"},{"Name":"State","CslType":"string"}]},
	"my table":{"Name":"my table","OrderedColumns":[{"Name":"a b","CslType":"long"},{"Name":"n","CslType":"long"}]},
	"Open":{"Name":"Open"}},"Functions":{"MyFunction":{"Name":"MyFunction"}}}}}`

func TestComplete(t *testing.T) {
	s, err := ParseSchema(schemaText)
	if err != nil {
		t.Fatal(err)
	}
	// The text ends where the tabulator is pressed; all wanted are among the
	// candidates, and none of the unwanted, which begin with a minus.
	f := func(text, begun string, want ...string) {
		t.Helper()
		all, taken := s.Complete(text)
		var got []string
		for _, c := range all {
			got = append(got, c.Text)
		}
		for _, w := range want {
			name, unwanted := strings.CutPrefix(w, "-")
			if slices.Contains(got, name) == unwanted {
				t.Errorf("%q: %q, want %s", text, got, w)
			}
		}
		if len(want) == 0 && len(got) > 0 {
			t.Errorf("%q: %q, want none", text, got)
		}
		if len(got) > 0 && text[len(text)-taken:] != begun {
			t.Errorf("%q: %q is replaced, want %q", text, text[len(text)-taken:], begun)
		}
	}
	f("", "", "StormEvents", "Open", "['my table']", "MyFunction", "let", "-where", "-State")
	f("st", "st", "StormEvents", "-State", "-startofday")
	f("T;\n", "", "StormEvents", "let")
	f("StormEvents | ", "", "where", "summarize", "-State")
	f("StormEvents |project-a", "project-a", "project-away", "-project")
	f("StormEvents\n| where Sta", "Sta", "State", "StartTime", "startswith", "-StormEvents", "-where")
	f("StormEvents\n| where ", "", "State", "-n", "-['a b']", "-startofday")
	f("['my table'] | where ", "", "n", "['a b']", "-State")
	f("Unknown | where ", "", "n", "State")
	f("StormEvents | extend Stage = 1 | project Sta", "Sta", "State", "Stage")
	f("StormEvents | summarize count() by St", "St", "State")
	f("StormEvents | join (St", "St", "StormEvents", "State")
	f("StormEvents | join kind=inner (['my table']) on ", "", "n", "State", "-StormEvents")
	f("StormEvents | render ", "", "timechart", "piechart", "-State")
	f(".show ta", ".show ta", ".show tables", ".show table", "-StormEvents")
	f(".show table St", "St", "StormEvents")
	f("StormEvents | where State == 'St", "")
	f("StormEvents // St", "")
	var none *Schema
	if all, _ := none.Complete("T | wh"); len(all) != 1 || all[0].Text != "where" {
		t.Error(all)
	}
	if _, err := ParseSchema("["); err == nil {
		t.Error("it reads what is no schema")
	}
}

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "kusto-agent", "history")
	open := func() *History {
		t.Helper()
		h, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := open()
	secrets := []string{
		`.create external table E (a:int) kind=blob (h@"https://x/y;key")`, `print h'hidden'`, "print 'AccountKey=abc'", "let password = 'x'; print 1",
		"print 'https://x/?sig=abcd'", `print dynamic({"app key": "x"})`,
	}
	kept := []string{"T\n| take 1;", ".show tables", "T | where token == 'x'", "T | where s has 'key'"}
	for _, text := range slices.Concat(kept, secrets) {
		for range 2 {
			if _, err := h.Write(text + "\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last, _ := h.GetLine(h.Len() - 1); h.Len() != len(kept)+len(secrets) || last != secrets[len(secrets)-1] {
		t.Errorf("%d statements, the last is %q", h.Len(), last)
	}
	if h = open(); !slices.Equal(h.all, kept) {
		t.Errorf("kept are %q, want %q", h.all, kept)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if st, err := os.Stat(p); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", p, st.Mode(), err)
		}
	}
	for i := range 2*mostKept + 1 {
		if _, err := h.Write(strings.Repeat("x", i%7+1)); err != nil {
			t.Fatal(err)
		}
	}
	if h, again := open(), open(); h.Len() != mostKept || again.Len() != mostKept {
		t.Errorf("%d and %d statements are kept", h.Len(), again.Len())
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if h, err := OpenHistory(filepath.Join(path, "no", "folder")); err == nil || h == nil {
		t.Errorf("%v, %v", h, err)
	}
}

func TestCommands(t *testing.T) {
	var did []string
	o := Options{Words: new(strings.Builder), Commands: []Command{
		{Name: `\db`, Run: func(arg string) error { did = append(did, arg); return nil }},
		{Name: `\q`, Run: func(string) error { return ErrQuit }},
	}}
	for text, want := range map[string]bool{`\db Logs`: true, `\x`: true, "exit": true, "quit;": true, "T": false, "T;": true, "T\n": true, "help | take 1": false, "exit\n| x": false} {
		if got := o.isWhole(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if err := o.do(`\db  Logs `); err != nil || !slices.Equal(did, []string{"Logs"}) {
		t.Error(did, err)
	}
	if err := o.do("quit"); err != ErrQuit {
		t.Error(err)
	}
	if err := o.do(`\nope`); err == nil || !strings.Contains(err.Error(), `\nope`) {
		t.Error(err)
	}
}
