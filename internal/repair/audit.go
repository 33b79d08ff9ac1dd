package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
)

// Audit is an audit that asks the tables, as the agent would.
type Audit struct {
	Config  *config.Config
	Options audit.Options
	Columns map[string]string // of stamps that are called otherwise than their fields
	Repair  bool              // what is missing is sent again
	Settled time.Duration     // but for what was accepted since
	Ask     *console.Asker    // before anything is sent; nil: nobody is asked
	All     bool              // a line for each file
	JSON    bool
	Known   func(*audit.Report) error // what is wrong with the inputs of Options
	Out     console.Output
}

// Run compares what the journal says was accepted with the tables, sends again what is missing if
// a.Repair is set, and prints the result. ok says that nothing is lost and the tables hold every
// record exactly once. The error has an exit code for the command.
func (a *Audit) Run(ctx context.Context) (ok bool, err error) {
	stamps, err := a.stamps()
	if err != nil {
		return false, err
	}
	inputs, err := pipeline.NewAgain(a.Config, nil)
	if err != nil {
		return false, exit.With(exit.Failed, err)
	}
	tables := &clusters{cfg: a.Config, made: map[string]*endpoint.Connection{}}
	defer tables.close()
	o := audit.TableOptions{Options: a.Options, Ask: tables, Shaped: inputs.Shaped, Stamps: func(input string) audit.Stamps { return stamps[input] }}
	if a.Repair {
		return a.mend(ctx, o, tables)
	}
	r, t, err := a.judged(ctx, o)
	if err != nil {
		return false, err
	}
	return r.OK && t.OK, a.show(r, t, nil)
}

// judged compares the journal with the tables and returns both reports. An error without an exit
// code for the command gets the one for a failed read.
func (a *Audit) judged(ctx context.Context, o audit.TableOptions) (*audit.Report, *audit.TableReport, error) {
	r, t, err := audit.Against(ctx, o)
	if err == nil {
		return r, t, a.Known(r)
	}
	var code *exit.Error
	if !errors.As(err, &code) {
		err = exit.Reading(err)
	}
	return r, t, err
}

// repaired is the part of a JSON document on a repair.
type repaired struct {
	*Plan
	*Result
}

// show prints the reports of the journal and of the tables. did is what was repaired before, nil if
// nothing was; only the JSON document has it.
func (a *Audit) show(r *audit.Report, t *audit.TableReport, did *repaired) error {
	if a.JSON {
		return a.Out.JSON(struct {
			*audit.Report
			Table  *audit.TableReport `json:"table"`
			Repair *repaired          `json:"repair,omitempty"`
		}{r, t, did})
	}
	if err := r.Write(a.Out, a.All); err != nil {
		return err
	}
	return t.Write(a.Out)
}

// mend compares the journal with the tables, sends the records that the tables lack through to, and
// compares again. It asks a person before it sends anything, if a.Ask is set. ok says that the last
// comparison found nothing wrong. Only one repair of a state folder can run at a time.
func (a *Audit) mend(ctx context.Context, o audit.TableOptions, to Sender) (ok bool, err error) {
	lock, err := Lock(o.State)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	began := time.Now()
	r, t, err := a.judged(ctx, o)
	if err != nil {
		return false, err
	}
	plan, source, err := Prepare(a.Config, t.Holes, began.Add(-a.Settled))
	if err != nil {
		return false, err
	}
	if !a.JSON {
		if err := errors.Join(a.show(r, t, nil), plan.Write(a.Out), a.Out.Flush()); err != nil {
			return false, err
		}
	}
	if plan.Records() == 0 {
		if a.JSON {
			err = a.show(r, t, &repaired{plan, nil})
		}
		return r.OK && t.OK, err
	}
	if a.Ask != nil {
		if err := Agreed(plan, a.Ask); err != nil {
			return false, err
		}
	}
	did := plan.Run(ctx, source, to)
	if !a.JSON {
		if err := did.Write(a.Out); err != nil {
			return false, err
		}
	}
	if r, t, err = a.judged(ctx, o); err != nil {
		return false, err
	}
	if a.JSON {
		err = a.show(r, t, &repaired{plan, did})
	} else {
		err = t.Write(a.Out)
	}
	return r.OK && t.OK, err
}

// stamps returns, by the name of each input, the columns of its table that say which file,
// generation and offset a row comes from: the fields {file}, {generation} and {offset} of the
// input. If several fields of an input have the same of these values, the first of them by name is
// taken. a.Columns has names of columns that differ from those of the fields; a key other than these
// three is an error.
func (a *Audit) stamps() (map[string]audit.Stamps, error) {
	for name := range a.Columns {
		if name != "file" && name != "generation" && name != "offset" {
			return nil, exit.Usagef("--column %s: want file, generation or offset", name)
		}
	}
	all := map[string]audit.Stamps{}
	for _, in := range a.Config.Inputs {
		s := audit.Stamps{Shared: in.Parse != "" && in.Parse != "none"}
		for _, column := range slices.Sorted(maps.Keys(in.Fields)) {
			switch in.Fields[column] {
			case "{file}":
				s.File = cmp.Or(a.Columns["file"], s.File, column)
			case "{generation}":
				s.Generation = cmp.Or(a.Columns["generation"], s.Generation, column)
			case "{offset}":
				s.Offset = cmp.Or(a.Columns["offset"], s.Offset, column)
			}
		}
		all[in.Name] = s
	}
	return all, nil
}

// clusters are those of a configuration, each reached as the agent would.
type clusters struct {
	cfg  *config.Config
	made map[string]*endpoint.Connection // by name
}

// Ask runs one query at the cluster and in the database of r, and calls row for each row of the
// result, with the values as text by column. An error means that row was not called.
func (t *clusters) Ask(ctx context.Context, r record.Route, text string, parameters []query.Parameter, row func(map[string]string)) error {
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

// Ingest makes one request to the cluster at the URL cluster. If there is no connection to it, the
// answer is a hold with the reason as its hint.
func (t *clusters) Ingest(ctx context.Context, cluster string, in *kusto.Ingest) kusto.Answer {
	to, err := t.to(cluster)
	if err != nil {
		return kusto.Answer{Verdict: kusto.Hold, Hint: err.Error()}
	}
	return to.Ingest(ctx, in)
}

// to returns the connection to the cluster at a URL, which is made at the first call and kept until
// close. A URL that is no cluster of the configuration is an error with an exit code.
func (t *clusters) to(url string) (*endpoint.Connection, error) {
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

func (t *clusters) close() {
	for _, c := range t.made {
		c.Close()
	}
}
