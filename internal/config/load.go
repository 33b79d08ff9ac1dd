package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/units"
)

// loader builds one Config. Checks go on after a mistake, with the default in
// place of what was wrong, so that all mistakes are told at once.
type loader struct {
	env  Env
	opts Options
	out  *report
	name string

	main    *source
	doc     document
	bare    map[string]bool // paths of files with secrets that were named without a folder
	cfg     *Config
	origins []origin // of cfg.Inputs, one each
}

// origin is where an input was written.
type origin struct {
	src  *source
	path string
}

// newLoader returns a loader in which all settings have their defaults. name is the main file, env
// looks up environment variables, and out collects the problems.
func newLoader(name string, env Env, o Options, out *report) *loader {
	c := DefaultConfig()
	l := &loader{name: name, env: env, opts: o, out: out, doc: defaultDocument(), cfg: &c, bare: map[string]bool{}}
	if listen, _ := env(listenVariable); listen != "" {
		l.doc.Telemetry.Listen = listen
	}
	return l
}

// listenVariable is what telemetry.listen is by default where it is set: several agents
// of one machine need an address each.
const listenVariable = "KUSTO_AGENT_LISTEN"

// load checks the text of the main file and of the files that it includes, and fills in l.cfg.
// Problems are added to the report.
func (l *loader) load(text []byte) {
	l.main = newSource(l.name, text, l.out)
	l.cfg.Files = []string{l.name}
	if !l.document(l.main, &l.doc) {
		return
	}
	l.settings()
	l.clusters()
	if l.opts.ClustersOnly {
		return
	}
	l.inputs(l.doc.Inputs, l.main)
	for _, path := range l.included() {
		l.include(path)
	}
	if len(l.cfg.Inputs) == 0 {
		l.main.bad("inputs", "missing; want at least one input, with paths and a table")
	}
	l.complain(l.main, "limits", l.cfg.Limits.check(l.largestBatch())...)
	l.together()
}

// document decodes the text of src into the struct that into points to. Mistakes are reported to
// src. It returns false if the text is no section with keys, so that nothing was decoded.
func (l *loader) document(src *source, into any) bool {
	root := parseYAML(src)
	if root == nil {
		return false
	}
	inspect(root, src, 1)
	src.mark("", root)
	d := decoder{src: src, env: l.env}
	d.value(root, reflect.ValueOf(into).Elem(), "")
	return root.Kind == yaml.MappingNode
}

// settings takes over and checks the settings of the top level that are not about inputs or clusters.
func (l *loader) settings() {
	c, d := l.cfg, &l.doc
	c.General, c.Batch, c.Sections = d.General, d.Batch, d.Sections
	c.StateDir = l.stateDir()
	c.Spool.Dir = cmp.Or(c.Spool.Dir, filepath.Join(c.StateDir, "spool"))
	if c.Send.TLS.CAFile != "" {
		c.Send.TLS.CAFile = l.inFolder(c.Send.TLS.CAFile)
	}
	c.Telemetry.TokenFile = l.credential(c.Telemetry.TokenFile)
	c.Telemetry.TLS.CertificateFile = l.credential(c.Telemetry.TLS.CertificateFile)
	c.Telemetry.TLS.KeyFile = l.credential(c.Telemetry.TLS.KeyFile)
	l.header("app", c.App)
	l.header("user", c.User)
	l.complain(l.main, "batch", c.Batch.Validate())
	known := c.Send
	if l.main.wrong["send.retry.initial"] {
		known.Retry.Initial = min(known.Retry.Initial, known.Retry.Max) // what was meant is not known
	}
	l.complain(l.main, "send", known.Validate())
	l.complain(l.main, "spool", c.Spool.Validate())
	l.spoolApart()
	l.complain(l.main, "quarantine", c.Quarantine.Validate())
	l.complain(l.main, "journal", c.Journal.Validate())
	l.complain(l.main, "telemetry", c.Telemetry.Validate())
}

// stateDir returns the state folder: as written, or the first that systemd has made for the service,
// or a folder in the current one.
func (l *loader) stateDir() string {
	if l.doc.StateDir != "" {
		return filepath.Clean(l.doc.StateDir)
	}
	dirs, _ := l.env("STATE_DIRECTORY")
	if dir, _, _ := strings.Cut(dirs, ":"); dir != "" {
		return filepath.Clean(dir)
	}
	return "kusto-agent-state"
}

// header reports a value, at its path in the main file, that cannot be sent in an HTTP header: one
// that is longer than 256 bytes or has other characters than printable ASCII.
func (l *loader) header(path, value string) {
	const most = 256
	odd := strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
	if odd >= 0 || len(value) > most {
		l.main.bad(path, "not fit for a header; want up to %d ASCII letters, digits and signs", most)
	}
}

// complain reports the errors of a check of a section, each *units.KeyError at its key and others
// at the section. Errors may be nil or joined. section is the path of the section in the file src.
func (l *loader) complain(src *source, section string, errs ...error) {
	for _, err := range leaves(errors.Join(errs...)) {
		if e, ok := err.(*units.KeyError); ok {
			src.bad(join(section, e.Key), "%s", e.Problem)
		} else {
			src.bad(section, "%v", err)
		}
	}
}

// inputs reads the list of inputs of one file, adds them to the configuration, with the place where
// each was written, and reports their mistakes. n is the node of the list; nil if the file has
// none.
func (l *loader) inputs(n *yaml.Node, src *source) {
	switch {
	case n == nil || isNull(n):
		return
	case n.Kind != yaml.SequenceNode:
		src.bad("inputs", "want a list of inputs, each begun with a dash")
		return
	}
	d := decoder{src: src, env: l.env}
	for i, item := range n.Content {
		path := fmt.Sprintf("inputs[%d]", i)
		src.mark(path, item)
		in := defaultInput()
		in.Batch = l.doc.Batch
		d.value(item, reflect.ValueOf(&in).Elem(), path)
		if item.Kind != yaml.MappingNode {
			if isNull(item) {
				src.bad(path, "an empty input; want at least paths and a table")
			}
			continue
		}
		l.resolve(&in, src, path)
		l.cfg.Inputs = append(l.cfg.Inputs, in)
		l.origins = append(l.origins, origin{src, path})
	}
}

// largestBatch returns the largest batch.max_size of the top level and of all inputs. Those that were
// refused are left out; 0 if all were.
func (l *loader) largestBatch() (largest units.Size) {
	if !l.main.wrong["batch.max_size"] {
		largest = l.cfg.Batch.MaxSize
	}
	for i := range l.cfg.Inputs {
		if !l.refused(l.origins[i], "batch.max_size") {
			largest = max(largest, l.cfg.Inputs[i].Batch.MaxSize)
		}
	}
	return largest
}

// refused reports whether a mistake was reported in a key of batch for the input at o: in its own
// value or, if it has none, in that of the top level. What the key was meant to be is then not known.
func (l *loader) refused(o origin, key string) bool {
	if own := join(o.path, key); o.src.given(own) {
		return o.src.wrong[own]
	}
	return l.main.wrong[key]
}
