package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kusto-agent/internal/kusto"
)

// Traced is a configuration that knows where each of its values came from. It
// keeps what was read, secrets included; it is not changed, and may be shared.
type Traced struct {
	*Config
	from *loader
}

// Kind is the way a value came to hold.
type Kind string

// The ways.
const (
	byDefault  Kind = "default"     // nothing says otherwise
	byFile     Kind = "file"        // written in a file
	byVariable Kind = "environment" // put in by a variable
	bySettings Kind = "resolved"    // follows from other settings
)

// Origin is where a value came from.
type Origin struct {
	Kind      Kind     `json:"kind"`
	File      string   `json:"file,omitempty"` // empty: it is in none
	Line      int      `json:"line,omitempty"` // from 1
	Variables []string `json:"variables,omitempty"`
	Note      string   `json:"note,omitempty"` // what else there is to know, in words
}

// String returns the origin in the form of the comment that Show writes after a value, such as
// agent.yaml:12, environment NAME (agent.yaml:12) or default, followed by the note.
func (o Origin) String() string {
	place := ""
	if o.File != "" {
		place = fmt.Sprintf("%s:%d", printable(o.File), o.Line)
	}
	switch {
	case o.Kind == byVariable && place != "":
		place = fmt.Sprintf("environment %s (%s)", strings.Join(o.Variables, " "), place)
	case o.Kind == byVariable:
		place = "environment " + strings.Join(o.Variables, " ")
	case place == "":
		place = string(o.Kind)
	}
	if o.Note != "" {
		place += ", " + o.Note
	}
	return place
}

// origin returns where the value at a path of the printed configuration, such as
// inputs[0].batch.max_size, came from: the file or the variables that give it, another path from
// which it is taken, or a default. value is the text as it is printed; "" for a section or list.
func (t Traced) origin(path, value string) Origin {
	src, at := t.locate(path)
	if p, ok := src.places[at]; ok {
		return t.given(src, p, value)
	}
	if from, note := t.inherited(path); from != "" {
		o := t.origin(from, value)
		if o.Kind == byFile || o.Kind == byVariable {
			o.Note = joinNotes(note, o.Note)
		}
		return o
	}
	return t.filled(path)
}

// Place returns where the value at a path is written, as FILE:LINE; if it is not written, the place of
// the section that would have it.
func (t Traced) Place(path string) string {
	src, at := t.locate(path)
	for ; at != ""; at = parent(at) {
		if p, ok := src.places[at]; ok {
			return fmt.Sprintf("%s:%d", printable(src.name), p.line)
		}
	}
	return printable(src.name)
}

// MayBeCredential reports whether a file of the configuration is named without a folder, so that the
// agent looks for it among the credentials that systemd provides. path is as the configuration has it.
func (t Traced) MayBeCredential(path string) bool { return t.from.bare[path] }

// joinNotes joins the notes that are not empty.
func joinNotes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), ", ")
}

// given returns the origin of a value that the file src has at the place p: the file, or the
// variables that were replaced in it. value is the text as it is printed; if the file spells it in
// another way, the note says how.
func (t Traced) given(src *source, p place, value string) Origin {
	o := Origin{Kind: byFile, File: src.name, Line: p.line}
	for _, name := range variablesIn(p.written) {
		if v, ok := t.from.env(name); ok && v != "" {
			o.Kind = byVariable
			o.Variables = append(o.Variables, name)
		} else {
			o.Note = joinNotes(o.Note, name+" is empty or not set")
		}
	}
	if value != "" && value != p.written && p.expanded == "" && !strings.Contains(value, kusto.Mask) {
		o.Note = "written as " + cmp.Or(printable(shortened(p.written)), `""`)
	}
	return o
}

var replaced = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)`)

// variablesIn returns the names of the variables, as in ${NAME}, in a value as it is written, each
// once. $$ stands for a dollar sign and begins none.
func variablesIn(written string) (names []string) {
	for _, m := range replaced.FindAllStringSubmatch(written, -1) {
		if m[1] != "" && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// locate returns the file that has, or would have, the value at a path of the whole configuration,
// and its path in that file. They differ for inputs, which each file numbers from 0.
func (t Traced) locate(path string) (src *source, at string) {
	i, rest, ok := inputAt(path)
	if !ok || i >= len(t.from.origins) {
		return t.from.main, path
	}
	o := t.from.origins[i]
	return o.src, o.path + rest
}

// inputAt divides a path such as inputs[2].batch.max_size into the index of the input, 2, and the
// rest of the path from its dot on; false if the path does not lead into an input.
func inputAt(path string) (i int, rest string, ok bool) {
	number, rest, ok := strings.Cut(path, "]")
	if !ok || !strings.HasPrefix(number, "inputs[") {
		return 0, "", false
	}
	_, err := fmt.Sscanf(number, "inputs[%d", &i)
	return i, rest, err == nil
}

// inherited returns the path from which a value that is not written is taken, such as
// batch.max_size for inputs[0].batch.max_size, and a note that says so in words; "" if it is not
// taken from another path.
func (t Traced) inherited(path string) (from, note string) {
	const ofTop = "of the top level"
	if i, rest, ok := inputAt(path); ok {
		switch cluster := t.Inputs[i].Cluster; {
		case strings.HasPrefix(rest, ".batch."):
			return rest[1:], ofTop
		case rest == ".database" && cluster == DefaultCluster:
			return "database", ofTop
		case rest == ".database":
			return join(join("clusters", cluster), "database"), "of the cluster"
		}
		return "", ""
	}
	for name := range t.from.doc.Clusters {
		rest, ok := strings.CutPrefix(path, join("clusters", name)+".")
		switch {
		case !ok:
		case rest == "database":
			return rest, ofTop
		case strings.HasPrefix(rest, "auth.") && t.from.doc.Clusters[name].Auth == nil:
			return rest, ofTop
		}
	}
	return "", ""
}

// filled returns the origin of the value at a path for which no file has a value: an environment
// variable that the agent reads by itself, another setting from which the value follows, or the
// default.
func (t Traced) filled(path string) Origin {
	note := ""
	switch i, rest, isInput := inputAt(path); {
	case path == "state_dir":
		if v, _ := t.from.env("STATE_DIRECTORY"); v != "" {
			return Origin{Kind: byVariable, Variables: []string{"STATE_DIRECTORY"}}
		}
	case path == "telemetry.listen":
		if v, _ := t.from.env(listenVariable); v != "" {
			return Origin{Kind: byVariable, Variables: []string{listenVariable}}
		}
	case path == "spool.dir":
		note = "spool in state_dir"
	case strings.HasSuffix(path, "auth.method"):
		note = "what auto finds in auth"
	case isInput:
		note = resolvedInput(&t.Inputs[i], strings.TrimPrefix(rest, "."))
	}
	if note != "" {
		return Origin{Kind: bySettings, Note: note}
	}
	return Origin{Kind: byDefault}
}

// resolvedInput says in words where the value of a key of an input comes from if the configuration
// does not set it, such as "by the extension of paths"; "" if it is the plain default.
func resolvedInput(in *Input, key string) string {
	switch {
	case key == "name":
		return "the table"
	case key == "format" && parses(in):
		return "parse makes JSON"
	case key == "format":
		return "by the extension of paths"
	case key == "compression":
		return cmp.Or(map[string]string{"none": "the format is compressed inside"}[in.Compression], "auto for this format")
	case key == "max_record_size" && in.MaxRecordSize != defaultInput().MaxRecordSize:
		return "what batch.max_size has room for"
	}
	return ""
}
