package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
)

// together checks the inputs against each other: their names, the settings of inputs with one route,
// and files that two of these would read.
func (l *loader) together() {
	names := map[string]int{}
	routes := map[record.Route][]int{}
	for i := range l.cfg.Inputs {
		in, o := &l.cfg.Inputs[i], l.origins[i]
		if first, taken := names[in.Name]; taken && in.Name != "" {
			l.sameName(i, first)
		} else {
			names[in.Name] = i
		}
		r := in.Route()
		if r.Cluster == "" || r.Table == "" || r.Format == "" || o.src.wrong[join(o.path, "mapping")] {
			continue // what is wrong with it was reported
		}
		if same := routes[r]; len(same) > 0 {
			l.oneRoute(i, same[0])
		}
		routes[r] = append(routes[r], i)
	}
	for _, same := range routes {
		if len(same) > 1 {
			l.oneFile(same)
		}
	}
}

// sameName reports that input i has the name of an earlier input, first. Both are indexes in the
// configuration.
func (l *loader) sameName(i, first int) {
	o, at := l.origins[i], join(l.origins[i].path, "name")
	if o.src.given(at) {
		o.src.bad(at, "%q is the name of %s too; want a name of its own", l.cfg.Inputs[i].Name, l.place(first, o.src))
		return
	}
	o.src.bad(at, "missing; without one it is the table, %q, as is that of %s", l.cfg.Inputs[i].Name, l.place(first, o.src))
}

// oneRoute reports input i if its batch settings or compression differ from those of an earlier
// input, first, which sends to the same table with the same format and mapping.
func (l *loader) oneRoute(i, first int) {
	a, b, o := &l.cfg.Inputs[first], &l.cfg.Inputs[i], l.origins[i]
	key := ""
	keys := slices.DeleteFunc(keysThatDiffer("batch", reflect.ValueOf(a.Batch), reflect.ValueOf(b.Batch)), func(key string) bool {
		return l.refused(l.origins[first], key) || l.refused(o, key)
	})
	if len(keys) > 0 {
		key = keys[0]
	}
	if a.Compression != b.Compression {
		key = "compression"
	}
	if key != "" {
		o.src.bad(join(o.path, key), "not the same as in %s, which sends to the same table, format and mapping; want one value for both", l.place(first, o.src))
	}
}

// oneFile reports files that exist now and that two inputs would both read, so that their records
// would be sent twice. same are the indexes of the inputs with one route, that is table, format and
// mapping.
func (l *loader) oneFile(same []int) {
	reader := map[string]int{}
	for _, i := range same {
		o := l.origins[i]
		for _, file := range matching(&l.cfg.Inputs[i]) {
			first, taken := reader[file]
			if !taken {
				reader[file] = i
			} else if first != i {
				o.src.bad(join(o.path, "paths"), "file %q is read by %s too, for the same table, format and mapping; want each line sent once: narrow the paths, or use exclude", file, l.place(first, o.src))
				break
			}
		}
	}
}

// place returns where input i is written, for a message about the file from: its path, with the
// name of its file if that is another one.
func (l *loader) place(i int, from *source) string {
	o := l.origins[i]
	if o.src == from {
		return o.path
	}
	return o.path + " of " + o.src.name
}

// spoolApart reports a spool.dir in which the agent would keep other things too: state_dir, one of
// the entries of it that are not for the spool, or a folder above it. Segments of the spool and of
// the journal have the same names, so that neither could be opened again.
func (l *loader) spoolApart() {
	state, dir := Absolute(l.cfg.StateDir), Absolute(l.cfg.Spool.Dir)
	problem := ""
	switch below, inside := within(state, dir); {
	case below == ".":
		problem = "this is state_dir itself"
	case inside:
		entry, _, _ := strings.Cut(below, "/")
		if !slices.Contains([]string{"journal", "quarantine", "LOCK", telemetry.SocketName}, entry) {
			return
		}
		problem = "the agent keeps its " + entry + " there"
	default:
		if _, above := within(dir, state); !above {
			return
		}
		problem = "state_dir is inside it"
	}
	l.main.bad("spool.dir", "%s; want a folder for the spool alone, or leave it out: then it is spool in state_dir", problem)
}

// within returns the path of an absolute path relative to folder, "." for folder itself, and whether
// the path is in the folder or is the folder itself.
func within(folder, path string) (below string, inside bool) {
	below, err := filepath.Rel(folder, path)
	return below, err == nil && below != ".." && !strings.HasPrefix(below, "../")
}
