package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/units"
)

func auditCommand() *cobra.Command {
	var a auditing
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Prove delivery: what became of every range of every file",
		Long: "Prove delivery, from the journal, the spool and quarantine, whether the agent runs or not: which ranges of each\n" +
			"file were accepted, refused, dropped or given up, which have no end that is known, which came twice, and what is\n" +
			"still on the way. It asks nobody and writes nothing.\n\n" +
			"The exit code is 1 if something did not reach the service and no key of the configuration allowed that.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&a.config, "config", config.DefaultPath, "the configuration `file` of the agent, which says where its state_dir and its spool are")
	f.StringVar(&a.dir, "state-dir", "", "the state_dir of the agent, a `folder`; no configuration is read then")
	f.StringVar(&a.since, "since", "", "judge only what ended in this `time` up to now, such as 12h or 7d (default: all that the journal has)")
	f.StringArrayVar(&a.inputs, "input", nil, "only files of this `input`; may be given more than once")
	f.BoolVar(&a.json, "json", false, "print one JSON document, with every range")
	f.BoolVar(&a.all, "all", false, "print a line for each file, also where nothing is the matter")
	return cmd
}

// auditing is one run of audit.
type auditing struct {
	config, dir, since string
	inputs             []string
	json, all          bool
}

func (a *auditing) run(cmd *cobra.Command) error {
	o, err := a.options()
	if err != nil {
		return err
	}
	r, err := audit.Read(o)
	if err != nil {
		return exit.Reading(err)
	}
	out := console.NewOutput(cmd.OutOrStdout())
	if a.json {
		err = out.JSON(r)
	} else {
		err = r.Write(out, a.all)
	}
	if err = out.End(err); err == nil && !r.OK {
		return exit.Silently(exit.Failed)
	}
	return err
}

// options are what the flags and the configuration say.
func (a *auditing) options() (o audit.Options, err error) {
	o.Inputs = a.inputs
	if a.since != "" {
		d, err := units.ParseDuration(a.since)
		if err != nil || d <= 0 {
			return o, exit.Usagef("--since %q: want a duration such as 12h or 7d", a.since)
		}
		o.Since = time.Now().Add(-d.D())
	}
	if o.State, o.Spool = a.dir, filepath.Join(a.dir, "spool"); a.dir == "" {
		cfg, err := loadConfig(a.config)
		if err != nil {
			return o, exit.With(exit.Config, fmt.Errorf("%w\nwithout a configuration: name the state_dir of the agent with --state-dir", err))
		}
		o.State, o.Spool = cfg.StateDir, cfg.Spool.Dir
		o.Drops = cfg.Spool.WhenFull == "drop_oldest" || cfg.Spool.MaxAge > 0
	}
	st, err := os.Stat(o.State)
	switch {
	case err != nil:
		return o, exit.Reading(err)
	case !st.IsDir():
		return o, exit.With(exit.Failed, fmt.Errorf("%q is not a folder", o.State))
	}
	return o, nil
}
