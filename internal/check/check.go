// Package check looks at everything a configuration needs, from its own words to
// the columns of its tables, and tells all that it finds in one run: what is well,
// what is not, and what to do about it. It changes nothing, stores nothing and
// sends no record.
//
// Each step goes on as far as it can when an earlier one found fault; what could
// not be looked at is told as that, and never as wrong.
package check

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/units"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	OK      Severity = "ok"
	Warning Severity = "warning" // records may be lost or delayed, or it could not be looked at
	Error   Severity = "error"   // it does not work like this
)

// Finding is one thing that was looked at.
type Finding struct {
	ID       string   `json:"id"` // does not change between versions
	Severity Severity `json:"severity"`
	Step     string   `json:"step"`
	Input    string   `json:"input,omitempty"`
	Where    string   `json:"where,omitempty"` // a place in a file, a path, a table, a cluster
	What     string   `json:"what"`
	// Fix is what to do. Its first line is words, and each line that follows a
	// command to paste.
	Fix    string `json:"fix,omitempty"`
	Detail string `json:"detail,omitempty"`

	Exit int `json:"-"` // the exit code for an error; 0: exit.Failed
}

// Options are what a run needs.
type Options struct {
	Path    string // of the configuration
	Env     config.Env
	Offline bool // leave out what needs the network
	Service Service
	Log     int // process whose open files are the agent's own log; 0: none is known
}

// steps are what is looked at, in this order.
var steps = []struct {
	name   string
	online bool
	run    func(*run, context.Context)
}{
	{"Configuration", false, (*run).load},
	{"Files", false, (*run).files},
	{"State, spool and quarantine", false, (*run).disks},
	{"Limits", false, (*run).limits},
	{"Way to the cluster", false, (*run).ways},
	{"Identity", false, (*run).identity},
	{"Tables", true, (*run).tables},
	{"Records", false, (*run).records},
	{"Rules and patterns", false, (*run).rules},
}

// Run does all checks and returns their findings, in the order of the steps. With o.Offline, steps
// that need the network are left out. If the configuration cannot be read, only its mistakes are
// returned. If ctx ends, the remaining steps are left out, and the error says so.
func Run(ctx context.Context, o Options) ([]Finding, error) {
	r := &run{Options: o, clusters: make(map[string]*cluster), samples: make(map[string]*sample), views: make(map[string]*view)}
	defer r.close()
	for _, s := range steps {
		r.step = s.name
		if !s.online || !o.Offline {
			s.run(r, ctx)
		}
		if r.cfg == nil {
			break // all other steps need the configuration
		}
		if err := ctx.Err(); err != nil {
			return r.found, fmt.Errorf("check: %w", err)
		}
	}
	return r.found, nil
}

// run is one run.
type run struct {
	Options
	cfg      *config.Config
	traced   config.Traced
	step     string
	found    []Finding
	folders  int                 // that would be watched
	clusters map[string]*cluster // by name
	samples  map[string]*sample  // by input
	views    map[string]*view    // by input
}

func (r *run) add(f Finding) {
	f.Step = r.step
	f.Fix = withPackage(f.Fix)
	r.found = append(r.found, f)
}

// withPackage returns what to do, with the name of the package of setfacl if one of the commands is that
// and this machine has none, as small installations do not.
func withPackage(fix string) string {
	words, commands, _ := strings.Cut(fix, "\n")
	if !strings.Contains(commands, "setfacl ") {
		return fix
	}
	if _, err := exec.LookPath("setfacl"); err == nil {
		return fix
	}
	return words + "; setfacl is not installed here: it is in the package acl\n" + commands
}

func (r *run) ok(id, input, where, format string, args ...any) {
	r.add(Finding{ID: id, Severity: OK, Input: input, Where: where, What: fmt.Sprintf(format, args...)})
}

// close closes the connections to clusters.
func (r *run) close() {
	for _, c := range r.clusters {
		if c.conn != nil {
			c.conn.Close()
		}
	}
}

// load reads the configuration into r.cfg and adds a finding for each mistake in it. If there is a
// mistake, r.cfg stays nil.
func (r *run) load(context.Context) {
	traced, err := config.LoadTraced(r.Path, r.Env, config.Options{})
	var all *config.Errors
	switch {
	case errors.As(err, &all):
		for _, p := range all.Problems {
			r.mistake(p)
		}
		if all.More > 0 {
			r.add(Finding{ID: "config", Severity: Error, Where: r.Path, What: fmt.Sprintf("%d more mistakes", all.More), Fix: "fix those above first", Exit: exit.Config})
		}
		return
	case err != nil:
		r.add(Finding{ID: "config", Severity: Error, Where: r.Path, What: err.Error(), Exit: exit.Config})
		return
	}
	r.cfg, r.traced = traced.Config, traced
	r.ok("config", "", r.Path, "%s, %s", units.Counted(len(r.cfg.Inputs), "input"), units.Counted(len(r.cfg.Clusters), "cluster"))
	r.left()
	r.relative()
}

// mistake adds a finding for one mistake in the configuration, with its line and column. In the
// message, what is wrong and what was expected are separated by a semicolon; the second part
// becomes the fix.
func (r *run) mistake(p config.Problem) {
	f := Finding{ID: "config", Severity: Error, Where: p.File, What: p.Message, Exit: exit.Config, Detail: p.Source}
	if p.Line > 0 {
		f.Where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
	}
	if what, meant, ok := strings.Cut(p.Message, "; "); ok {
		f.What, f.Fix = what, meant
	}
	if p.Path != "" {
		f.What = p.Path + ": " + f.What
	}
	r.add(f)
}
