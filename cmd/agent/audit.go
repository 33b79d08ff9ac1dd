package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
	"kusto-agent/internal/repair"
	"kusto-agent/internal/units"
)

func auditCommand() *cobra.Command {
	var a auditing
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Prove delivery: what became of every range of every file",
		Long: "Prove delivery, from the journal, the spool and quarantine, whether the agent runs or not: which ranges of each\n" +
			"file were accepted, refused, dropped or given up, which have no end that is known, which came twice, and what is\n" +
			"still on the way. It writes no state, and asks nobody but with --against-table.\n\n" +
			"With --against-table the tables are asked for every record that was accepted: which are missing and which are\n" +
			"there more than once. It needs inputs whose fields stamp each record, and columns of these names:\n" +
			"  fields: {file: \"{file}\", generation: \"{generation}\", offset: \"{offset}\"}\n" +
			"Other names of fields do too; where a column has another name than its field, --column says which.\n\n" +
			"With --repair too, records that are missing and still in their files are sent again as they were sent first, with\n" +
			"the same stamps but for the batch, and the tables are asked once more. The agent may run meanwhile.\n\n" +
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
	f.BoolVar(&a.table, "against-table", false, "ask the tables too, as the agent's identity, for each record that was accepted")
	f.StringToStringVar(&a.columns, "column", nil, "with --against-table, the column of a stamp, as in offset=RecordOffset; stamps are file, generation and offset")
	f.BoolVar(&a.repair, "repair", false, "with --against-table, send again what is missing there and still in its file; shown first, and asked for on a terminal")
	f.BoolVar(&a.yes, "yes", false, "with --repair, send without asking")
	f.DurationVar(&a.settled, "settled", time.Minute, "with --repair, the `time` after which a table is sure to show what it accepted; what is newer is left alone")
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

func (a *auditing) run(cmd *cobra.Command) error {
	if a.repair && !a.table || a.yes && !a.repair || a.repair && a.json && !a.yes || a.settled < 0 {
		return exit.Usagef("--repair needs --against-table, and --yes too with --json; --yes is for --repair; --settled cannot be negative")
	}
	o, err := a.options()
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
	out := console.NewOutput(cmd.OutOrStdout())
	if a.json {
		err = out.JSON(r)
	} else {
		err = r.Write(out, a.all)
	}
	return ended(out.End(err), r.OK)
}

// ended is how the command ends after a verdict.
func ended(err error, ok bool) error {
	if err == nil && !ok {
		return exit.Silently(exit.Failed)
	}
	return err
}

// against has the tables asked too, and what is missing sent again with --repair.
func (a *auditing) against(cmd *cobra.Command, o audit.Options) error {
	if a.cfg == nil {
		return exit.Usagef("--against-table needs the configuration, which says where the tables are: name it with --config")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	stamps, err := a.stamps()
	if err != nil {
		return err
	}
	inputs, err := pipeline.NewAgain(a.cfg, nil)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	ask := &tableAsker{cfg: a.cfg, made: map[string]*endpoint.Connection{}}
	defer ask.close()
	all := audit.TableOptions{Options: o, Ask: ask, Shaped: inputs.Shaped, Stamps: func(input string) audit.Stamps { return stamps[input] }}
	out := console.NewOutput(cmd.OutOrStdout())
	if a.repair {
		return out.End(a.mend(ctx, cmd, out, all))
	}
	r, t, err := judged(ctx, all)
	if err != nil {
		return err
	}
	return ended(out.End(a.show(out, r, t, nil)), r.OK && t.OK)
}

func judged(ctx context.Context, o audit.TableOptions) (*audit.Report, *audit.TableReport, error) {
	r, t, err := audit.Against(ctx, o)
	var code *exit.Error
	if err != nil && !errors.As(err, &code) {
		err = exit.Reading(err)
	}
	return r, t, err
}

// show prints what an audit with tables found, and what was repaired before it; nil: nothing.
func (a *auditing) show(out console.Output, r *audit.Report, t *audit.TableReport, did *repaired) error {
	if a.json {
		return out.JSON(struct {
			*audit.Report
			Table  *audit.TableReport `json:"table"`
			Repair *repaired          `json:"repair,omitempty"`
		}{r, t, did})
	}
	if err := r.Write(out, a.all); err != nil {
		return err
	}
	return t.Write(out)
}

// repaired is the part of --json on a repair.
type repaired struct {
	*repair.Plan
	*repair.Result
}

// mend sends what the tables lack, and asks them again.
func (a *auditing) mend(ctx context.Context, cmd *cobra.Command, out console.Output, o audit.TableOptions) error {
	lock, err := repair.Lock(o.State)
	if err != nil {
		return err
	}
	defer lock.Close()
	began := time.Now()
	r, t, err := judged(ctx, o)
	if err != nil {
		return err
	}
	plan, source, err := repair.Prepare(a.cfg, t.Holes, began.Add(-a.settled))
	if err != nil {
		return err
	}
	if !a.json {
		if err := errors.Join(a.show(out, r, t, nil), plan.Write(out), out.Flush()); err != nil {
			return err
		}
	}
	if plan.Records() == 0 {
		if a.json {
			err = a.show(out, r, t, &repaired{plan, nil})
		}
		return ended(err, r.OK && t.OK)
	}
	if !a.yes {
		asker := console.NewAsker(cmd.InOrStdin(), cmd.ErrOrStderr())
		if err := repair.Agreed(plan, &asker); err != nil {
			return err
		}
	}
	did := plan.Run(ctx, source, o.Ask.(*tableAsker))
	if !a.json {
		if err := did.Write(out); err != nil {
			return err
		}
	}
	if r, t, err = judged(ctx, o); err != nil {
		return err
	}
	if a.json {
		err = a.show(out, r, t, &repaired{plan, did})
	} else {
		err = t.Write(out)
	}
	return ended(err, r.OK && t.OK)
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
		a.cfg, o.State, o.Spool = cfg, cfg.StateDir, cfg.Spool.Dir
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

// stamps are the columns of each input that say where a row comes from.
func (a *auditing) stamps() (map[string]audit.Stamps, error) {
	for name := range a.columns {
		if name != "file" && name != "generation" && name != "offset" {
			return nil, exit.Usagef("--column %s: want file, generation or offset", name)
		}
	}
	all := map[string]audit.Stamps{}
	for _, in := range a.cfg.Inputs {
		s := audit.Stamps{Shared: in.Parse != "" && in.Parse != "none"}
		for column, value := range in.Fields {
			switch value {
			case "{file}":
				s.File = cmp.Or(a.columns["file"], column)
			case "{generation}":
				s.Generation = cmp.Or(a.columns["generation"], column)
			case "{offset}":
				s.Offset = cmp.Or(a.columns["offset"], column)
			}
		}
		all[in.Name] = s
	}
	return all, nil
}

// tableAsker asks clusters as the agent would.
type tableAsker struct {
	cfg  *config.Config
	made map[string]*endpoint.Connection // by name
}

// Ask has one question answered.
func (t *tableAsker) Ask(ctx context.Context, r record.Route, text string, parameters []query.Parameter, row func(map[string]string)) error {
	to, err := t.to(r.Cluster)
	if err != nil {
		return err
	}
	var got query.Collector
	if err := to.Query(ctx, &query.Query{Call: query.QueryV2, Database: r.Database, Text: text, Parameters: parameters, ReadOnly: true}, &got); err != nil {
		return endpoint.Failure(err)
	}
	got.Each(row)
	return nil
}

// Ingest makes one request.
func (t *tableAsker) Ingest(ctx context.Context, cluster string, in *kusto.Ingest) kusto.Answer {
	to, err := t.to(cluster)
	if err != nil {
		return kusto.Answer{Verdict: kusto.Hold, Hint: err.Error()}
	}
	return to.Ingest(ctx, in)
}

// to is the connection to the cluster of a URL.
func (t *tableAsker) to(url string) (*endpoint.Connection, error) {
	for name, c := range t.cfg.Clusters {
		if c.URL != url {
			continue
		}
		if t.made[name] == nil {
			to, err := endpoint.Connect(t.cfg, name)
			if err != nil {
				return nil, err
			}
			t.made[name] = to
		}
		return t.made[name], nil
	}
	return nil, exit.With(exit.Config, fmt.Errorf("records went to %s, which is no cluster of the configuration", url))
}

func (t *tableAsker) close() {
	for _, c := range t.made {
		c.Close()
	}
}
