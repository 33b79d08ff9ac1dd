package format

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const docs = "../../docs"

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The table of the documentation is that of the code.
func TestDocumentedFormats(t *testing.T) {
	index := readDoc(t, "formats.md")
	delimiters := map[byte]string{',': "comma", '\t': "tab", ';': "semicolon", 1: "byte 0x01", '|': "vertical bar"}
	for _, s := range All() {
		name, page, needs := string(s.Format), strings.ToLower(string(s.Format)), "optional"
		if s.NeedsMap {
			needs = "required"
		}
		var files string
		for _, e := range s.Extensions {
			files += "`" + e + "` "
		}
		cell := func(text string) string { return strings.TrimRight(" "+text, " ") + " |" }
		row := "|" + cell(name) + cell(strings.TrimSpace(files)) + cell(delimiters[s.Delimiter]) + cell(s.Mapping+", "+needs) + cell("["+page+"](formats/"+page+".md)")
		if !strings.Contains(index, row+"\n") {
			t.Errorf("docs/formats.md has no row %s", row)
		}
		if text := readDoc(t, "formats/"+page+".md"); !strings.HasPrefix(text, "# "+name+"\n") || !strings.Contains(text, "`streamFormat="+name+"`") ||
			!strings.Contains(text, "(kind "+s.Mapping+") is "+needs) {
			t.Errorf("page %s does not say its name, the one on the wire, and its mapping", page)
		}
	}
	for _, p := range Parses()[1:] {
		if !strings.HasPrefix(readDoc(t, "formats/"+p+".md"), "# parse: "+p+"\n") {
			t.Errorf("parse: %s has no page", p)
		}
	}
}

// Every page is in the index, and every link leads somewhere.
func TestDocumentedLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	index := readDoc(t, "formats.md")
	pages, err := filepath.Glob(docs + "/formats/*.md")
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, docs+"/formats.md") {
		if base := filepath.Base(page); base != "formats.md" && !strings.Contains(index, "(formats/"+base+")") {
			t.Errorf("docs/formats.md does not name %s", base)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: link %s: %v", page, m[1], err)
			}
		}
	}
}

// pictures stand in the documentation for what cannot be seen.
var pictures = strings.NewReplacer("␊", "\n", "␍", "\r", "␉", "\t", "␁", "\x01")

// The examples of the documentation are true.
func TestDocumentedExamples(t *testing.T) {
	block := regexp.MustCompile("(?s)```records ([^\n]*)\n(.*?)```")
	pages, err := filepath.Glob(docs + "/formats/*.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			o := documentedOptions(t, strings.Fields(m[1]))
			for line := range strings.Lines(m[2]) {
				in, want, found := strings.Cut(strings.TrimSuffix(line, "\n"), " → ")
				if in = pictures.Replace(in); o.Encoding != UTF8 {
					if in, err = strconv.Unquote(`"` + strings.ReplaceAll(in, "\n", `\n`) + `"`); err != nil {
						t.Fatal(err)
					}
				}
				got := strings.Join(outcomes(t, o, in), " · ")
				if want = pictures.Replace(want); strings.ReplaceAll(want, `\ufffd`, "\uFFFD") != got || !found {
					t.Errorf("%s: %s\nbecomes %q", filepath.Base(page), line, got)
				}
				examples++
			}
		}
	}
	if examples < 50 {
		t.Errorf("%d examples", examples)
	}
}

func documentedOptions(t *testing.T, words []string) Options {
	t.Helper()
	f, ok := Lookup(words[0])
	o := Options{Format: f, Validate: true}
	start, most := "", 500
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		known := true
		switch key {
		case "validate":
			o.Validate = value != "none"
		case "header":
			o.SkipHeader = value == "skip"
		case "parse":
			if o.Parse, known = ParseOf(value); o.Parse == ParseRegex {
				o.Pattern = newPattern(t, map[string]string{"n": "long"}, "", "", `^(?P<n>[^|]*)\|(?P<level>\w+)\|(?P<message>.*)$`)
			}
		case "inner":
			o.Inner, known = InnerOf(value)
		case "on_error":
			o.OnError, known = OnErrorOf(value)
		case "encoding":
			o.Encoding, known = EncodingOf(value)
		case "fields":
			o.Fields = newFields(t, "env", "prod", "offset", "{offset}")
		case "start":
			start = value
		case "max_lines":
			most, _ = strconv.Atoi(value)
		default:
			known = false
		}
		ok = ok && known
	}
	if start != "" {
		o.Multiline = multiline(t, start, "", most)
	}
	if !ok {
		t.Fatalf("%q are no options", words)
	}
	return o
}

// outcomes says what becomes of each record of a file, in its order.
func outcomes(t *testing.T, o Options, file string) (all []string) {
	s, group := newScanner(t, o), 0
	var c Chunk
	for at := 0; at < len(file); at += c.Consumed {
		s.Scan(buffer(file[at:]), int64(at), true, 1, &c)
		if c.Consumed == 0 {
			t.Fatalf("no progress at %d of %q", at, file)
		}
		type what struct {
			at   int
			text string
		}
		var found []what
		for range c.Blank + c.Header + min(c.BOM, 1) {
			found = append(found, what{-1, "left out"})
		}
		for _, p := range c.Pieces {
			if group != 0 && c.Group != group {
				found = append(found, what{p.Start, "another payload"})
			}
			group = c.Group
			text := "sent"
			if string(c.Body) != file[at+p.Start:at+p.End] {
				text = "sent as " + string(c.Body)
			}
			found = append(found, what{p.Start, text})
		}
		for _, r := range c.Rejected {
			found = append(found, what{r.Start, "quarantined: " + r.Message})
		}
		slices.SortStableFunc(found, func(a, b what) int { return a.at - b.at })
		for _, w := range found {
			all = append(all, w.text)
		}
	}
	return all
}
