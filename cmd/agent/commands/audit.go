package commands

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/repair"
	"kusto-agent/internal/units"
)

// auditCommand returns the command audit, with its help and its flags.
func auditCommand() *cobra.Command {
	var a auditing
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Prove delivery: what became of every range of every file",
		Long: "Prove delivery, from the journal, the spool and quarantine, whether the agent runs or not: which ranges of each\n" +
			"file were accepted, refused, dropped or given up, for which the outcome is unknown, which came twice, and what\n" +
			"is still on the way. It changes no state, and contacts the service only with --against-table.\n\n" +
			"With --against-table the tables are asked for every record that was accepted: which are missing and which are\n" +
			"there more than once. It needs inputs whose fields stamp each record, and columns of these names:\n" +
			"  fields: {file: \"{file}\", generation: \"{generation}\", offset: \"{offset}\"}\n" +
			"The fields may have other names. If a column is not named like its field, give its name with --column.\n\n" +
			"With --repair too, records that are missing and still in their files are sent again as they were sent first, with\n" +
			"the same stamps except that of the batch, and the tables are asked once more. The agent may run meanwhile.\n\n" +
			"The exit code is 1 if something was lost, or may be, and no key of the configuration allowed that. Records in\n" +
			"quarantine, and those that a person gave up, are told and do not count.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&a.config, "config", config.DefaultPath, "the configuration `file` of the agent, which says where its state_dir and its spool are")
	f.StringVar(&a.dir, "state-dir", "", "the state_dir of the agent, a `folder`; no configuration is read then")
	f.StringVar(&a.since, "since", "", "judge only ranges whose outcome was recorded within this `time`, such as 12h or 7d (default: all that the journal has)")
	f.StringArrayVar(&a.inputs, "input", nil, "only files of this `input`; may be given more than once")
	f.BoolVar(&a.json, "json", false, "print one JSON document, with every range")
	f.BoolVar(&a.table, "against-table", false, "ask the tables too, as the agent's identity, for each record that was accepted")
	f.StringToStringVar(&a.columns, "column", nil, "with --against-table, the column that a stamp is in, as `stamp=column`, such as offset=RecordOffset; stamps are file, generation and offset; may be repeated")
	f.Lookup("column").DefValue = "" // or the help says: default []
	f.BoolVar(&a.repair, "repair", false, "with --against-table, send again what is missing there and still in its file; shown first, and asked for on a terminal")
	f.BoolVar(&a.yes, "yes", false, "with --repair, send without asking")
	durationVar(f, &a.settled, "settled", time.Minute, "with --repair, the `time` after which a table is sure to show what it accepted; what is newer is left alone")
	f.BoolVar(&a.all, "all", false, "print a line for each file, also where nothing is the matter")
	return cmd
}

// auditing is one run of audit.
type auditing struct {
	config, dir, since string
	inputs             []string
	json, all, table   bool
	repair, yes        bool
	settled            time.Duration // with repair: what was accepted since is left alone
	columns            map[string]string
	cfg                *config.Config // nil: none was read
}

// run checks the flags, reads the state on disk and prints the report. The error has exit code 1 if
// the report is not OK. With --against-table the method against does all of this.
func (a *auditing) run(cmd *cobra.Command) error {
	switch {
	case a.repair && !a.table:
		return exit.Usagef("--repair needs --against-table, which says what is missing")
	case a.yes && !a.repair:
		return exit.Usagef("--yes is for --repair")
	case cmd.Flags().Changed("settled") && !a.repair:
		return exit.Usagef("--settled is for --repair")
	case len(a.columns) > 0 && !a.table:
		return exit.Usagef("--column is for --against-table")
	case a.repair && a.json && !a.yes:
		return exit.Usagef("--repair with --json asks nobody: give --yes too")
	}
	o, err := a.options(cmd.Context())
	if err != nil {
		return err
	}
	if a.table {
		return a.against(cmd, o)
	}
	r, err := audit.Read(o)
	if err != nil {
		return exit.Reading(err)
	}
	if err := a.known(r); err != nil {
		return err
	}
	return ended(show(cmd, a.json, r, func(out console.Output) error { return r.Write(out, a.all) }), r.OK)
}

// ended returns the error with which the command ends after it has printed its report: err if the
// printing failed, exit code 1 without a message if the report is not ok, otherwise nil.
func ended(err error, ok bool) error {
	if err == nil && !ok {
		return exit.Silently(exit.Failed)
	}
	return err
}

// against does the audit with --against-table: it also compares the journal with the tables in
// Kusto, and with --repair sends again records that are missing there. Unless --yes is given, it
// asks before that.
func (a *auditing) against(cmd *cobra.Command, o audit.Options) error {
	if a.cfg == nil {
		return exit.Usagef("--against-table needs the configuration, which says where the tables are: name it with --config")
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	out := console.NewOutput(cmd.OutOrStdout())
	t := repair.Audit{Config: a.cfg, Options: o, Columns: a.columns, Repair: a.repair, Settled: a.settled, All: a.all, JSON: a.json, Known: a.known, Out: out}
	if !a.yes {
		ask := console.NewAsker(cmd.InOrStdin(), cmd.ErrOrStderr())
		t.Ask = &ask
	}
	ok, err := t.Run(ctx)
	return ended(out.End(err), ok)
}

// known returns an error if --input names an input that is neither in the report nor in the
// configuration.
func (a *auditing) known(r *audit.Report) error {
	var configured []string
	if a.cfg != nil {
		for i := range a.cfg.Inputs {
			configured = append(configured, a.cfg.Inputs[i].Name)
		}
	}
	return exit.Default(exit.Usage, r.Known(a.inputs, configured))
}

// options returns the options of the audit that follow from the flags and the configuration. It
// sets a.cfg, unless --state-dir is given: then no configuration is read, and the spool is in that
// folder if no agent that runs has it elsewhere.
func (a *auditing) options(ctx context.Context) (o audit.Options, err error) {
	o.Inputs = a.inputs
	if a.since != "" {
		d, err := units.ParseDuration(a.since)
		if err != nil || d <= 0 {
			return o, exit.Usagef("--since %q: want a duration such as 12h or 7d", a.since)
		}
		o.Since = time.Now().Add(-d.D())
	}
	named := "--state-dir" // by which the folder is named
	if o.State, o.Spool = a.dir, filepath.Join(a.dir, "spool"); a.dir == "" {
		cfg, err := loadService(a.config)
		if err != nil {
			return o, exit.With(exit.Config, fmt.Errorf("%w\nwithout a configuration: name the state_dir of the agent with --state-dir", err))
		}
		named, a.cfg, o.State, o.Spool = "", cfg, cfg.StateDir, cfg.Spool.Dir
		o.Drops = cfg.Spool.WhenFull == "drop_oldest" || cfg.Spool.MaxAge > 0
	}
	if err := isFolder(o.State, named); err != nil {
		return o, err
	}
	o.Spool = spoolFolder(ctx, o.State, o.Spool)
	return o, nil
}
