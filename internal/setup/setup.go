// Package setup makes what the inputs of a configuration need on the service: it adds what
// is missing, changes nothing that is there without being told to, prints each command that
// it runs, and has nothing to do the second time.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/schema"
)

// Setup is one run of the command.
type Setup struct {
	Path        string        // of the configuration, for commands that are told
	DryRun      bool          // the commands are printed, and nothing is changed or sent
	Inputs      []string      // by their names; none: all
	Grants      []string      // principals who are to write to the tables and read the schema
	Yes         bool          // what is there already is changed without a question
	ProbeRecord bool          // the first record of each sample is sent
	Wait        time.Duration // for the service to see what was made

	Out console.Output
	Ask console.Asker

	cfg   *config.Config
	conns map[string]*endpoint.Connection // by cluster
	known schema.Roles
	plans []*inputPlan // of the inputs that could be planned, in their order

	cleared map[database]bool // those of which all nodes have looked at the schema
	noClear bool              // the identity may not have the nodes look at the schema again
}

// inputPlan is the plan for an input.
type inputPlan struct {
	*schema.Plan
	in *config.Input
}

// database names one by its cluster and itself.
type database struct{ cluster, name string }

func (p *inputPlan) database() database { return database{p.in.Cluster, p.Route.Database} }

// Run creates or changes on the service what the inputs of a configuration need: tables, mappings,
// policies and roles. It asks before it changes something that exists, and waits until the service
// takes records. With s.DryRun it only prints the commands. Errors have exit codes; an input
// without a usable sample is one, after the others are done.
func (s *Setup) Run(ctx context.Context, cfg *config.Config) error {
	defer s.close()
	failed, err := s.plan(ctx, cfg)
	if err != nil {
		return err
	}
	if err := s.agreed(); err != nil {
		return err
	}
	if err := s.execute(ctx, failed); err != nil {
		return err
	}
	if !s.DryRun {
		for _, p := range s.plans {
			if err := s.await(ctx, p); err != nil {
				return err
			}
		}
	}
	if failed {
		return exit.Silently(exit.Failed)
	}
	return nil
}

// Plans returns the commands that Run would make for each input, and runs none of them. Inputs
// without a usable sample are left out.
func (s *Setup) Plans(ctx context.Context, cfg *config.Config) (all []*schema.Plan, err error) {
	defer s.close()
	if _, err := s.plan(ctx, cfg); err != nil {
		return nil, err
	}
	for _, p := range s.plans {
		all = append(all, p.Plan)
	}
	return all, nil
}

func (s *Setup) close() {
	for _, c := range s.conns {
		c.Close()
	}
}

// chosen returns the inputs that --input names, or all inputs if none is named. Before that it
// checks the form of each --grant. An error is one of usage.
func (s *Setup) chosen() ([]*config.Input, error) {
	for _, who := range s.Grants {
		kind, id, ok := strings.Cut(who, "=")
		if !ok || kind == "" || strings.Trim(id, "; ") == "" {
			return nil, exit.With(exit.Usage, fmt.Errorf("--grant %q: want a principal such as aadapp=CLIENT_ID;TENANT", who))
		}
	}
	var all []*config.Input
	var names []string
	for i := range s.cfg.Inputs {
		in := &s.cfg.Inputs[i]
		names = append(names, in.Name)
		if len(s.Inputs) == 0 || slices.Contains(s.Inputs, in.Name) {
			all = append(all, in)
		}
	}
	for _, name := range s.Inputs {
		if !slices.Contains(names, name) {
			return nil, exit.With(exit.Usage, fmt.Errorf("there is no input %q; the configuration has %s", name, strings.Join(names, ", ")))
		}
	}
	return all, nil
}

// plan reads the tables of the inputs and a sample of their files, and sets s.plans to the commands
// that are missing. It changes nothing. failed is true if the files of an input gave no sample;
// that is told to the user, and the input has no plan.
func (s *Setup) plan(ctx context.Context, cfg *config.Config) (failed bool, err error) {
	s.cfg = cfg
	inputs, err := s.chosen()
	if err != nil {
		return false, err
	}
	s.conns, s.known, s.cleared = make(map[string]*endpoint.Connection), make(schema.Roles), make(map[database]bool)
	tables := make(map[string]*schema.Table)
	spelled := make(map[database]string) // the first spelling of each database; letter case does not count
	for _, in := range inputs {
		conn := s.conns[in.Cluster]
		if conn == nil {
			if conn, err = endpoint.Connect(s.cfg, in.Cluster); err != nil {
				return false, err
			}
			s.conns[in.Cluster] = conn
		}
		of, name := in.Route(), database{in.Cluster, strings.ToLower(in.Database)}
		spelled[name] = cmp.Or(spelled[name], in.Database)
		of.Database = spelled[name]
		reader := schema.Reader{Client: conn.Client, Database: of.Database}
		key := strings.Join([]string{in.Cluster, of.Database, in.Table}, "\x00")
		t := tables[key]
		if t == nil {
			if t, err = reader.Table(ctx, of); err != nil {
				return false, endpoint.Failure(err)
			}
			tables[key] = t
			if len(s.Grants) > 0 {
				reader.Principals(ctx, of, t.Exists, s.known)
			}
		}
		reader.Inherit(ctx, of, t)
		sample, bad := takeSample(ctx, s.cfg, in)
		if bad != nil {
			failed = true
			console.Say("%s: %v", in.Name, bad)
			console.Say("to fix it: see that its files are there and can be read: kusto-agent preview %s --config %s", config.Quoted(in.Name), config.Quoted(s.Path))
			continue
		}
		s.plans = append(s.plans, &inputPlan{schema.NewPlan(of, t, sample), in})
	}
	for _, p := range s.plans {
		if err := p.Make(); err != nil {
			return false, endpoint.Failure(err)
		}
		p.Grant(s.Grants, s.known)
		for _, note := range p.Notes {
			console.Say("%s: %s", p.in.Name, note)
		}
	}
	return failed, ctx.Err()
}

// agreed tells the user the changes to what exists, and asks whether to make them. It returns nil
// if there are none, for a dry run, with s.Yes, or if the answer is yes. Without a terminal it
// returns a usage error.
func (s *Setup) agreed() error {
	var changes []string
	for _, p := range s.plans {
		for _, st := range p.Steps {
			changes = append(changes, st.Changes...)
		}
	}
	for _, c := range changes {
		console.Say("%s", c)
	}
	if len(changes) == 0 || s.DryRun || s.Yes {
		return nil
	}
	if !s.Ask.On {
		return exit.With(exit.Usage, errors.New("this changes what is there already, and nothing was done; look at the commands with --dry-run, and run it with --yes"))
	}
	fmt.Fprint(s.Ask.Out, "Change it? [y/N] ")
	answer, _ := s.Ask.In.ReadString('\n') // no answer counts as no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return exit.With(exit.Failed, errors.New("nothing was done"))
	}
	return nil
}
