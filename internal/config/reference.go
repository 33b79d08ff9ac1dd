package config

import (
	"bytes"
	"fmt"
	"strings"
)

// referenceHead opens the page of all keys.
const referenceHead = `# Every key of the configuration

Written by ` + "`kusto-agent config reference`" + `: do not edit it. ` + "`kusto-agent config explain KEY`" + ` says the same of one key, and [agent.yaml.example](../agent.yaml.example) has all of them in one file.

Units stand in the value: ` + "`500ms`, `30s`, `1h30m`, `7d`; `64KiB`, `4MB`, `1GiB`" + ` (kB, MB and GB are decimal, KiB, MiB and GiB binary). ` + "`${NAME}`, `${NAME:-default}` and `${NAME:?why}`" + ` are replaced from the environment, ` + "`$$`" + ` is a dollar sign. A key that is unknown, doubled or mistyped is an error, and all errors of a file are reported at once.
`

// Reference returns the page of all keys as Markdown: by section, each with type, default and meaning.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	section := func(t Topic) {
		name := t.Key
		if name == "" {
			name = "The top level"
		} else {
			name = "`" + name + "`"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | what it is for | default |\n|---|---|---|\n", name, inCell(t.About))
		for _, k := range t.Keys {
			b.WriteString(k.row())
		}
	}
	everything().all(func(k *key) {
		if len(k.keys) > 0 && k.path == k.common() {
			section(k.explained())
		}
	})
	return b.Bytes()
}

// row returns the row of the key t in a Markdown table with three columns: key, explanation with
// type and range, and default.
func (t Topic) row() string {
	about := inCell(t.About)
	var more []string
	switch {
	case len(t.Keys) > 0:
	case t.Allowed != nil:
		several, _ := strings.CutPrefix(t.Type, "one of the allowed words")
		more = append(more, "One of "+inCode(strings.Join(t.Allowed, "`, `"))+several+".")
	default:
		more = append(more, strings.ToUpper(t.Type[:1])+t.Type[1:]+".")
	}
	if t.Range != "" {
		more = append(more, "From "+strings.Replace(t.Range, " or more", " on", 1)+".")
		if t.Range == "more than 0" {
			more[len(more)-1] = "More than 0."
		}
	}
	if len(more) > 0 {
		about += " *" + inCell(strings.Join(more, " ")) + "*"
	}
	standard := inCell(t.Default)
	return fmt.Sprintf("| %s | %s | %s |\n", inCode(t.Key), about, standard)
}

// inCell escapes a text for a cell of a Markdown table.
func inCell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

func inCode(s string) string { return "`" + s + "`" }
