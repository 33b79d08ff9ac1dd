package queryshell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"kusto-agent/internal/async"
	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/rows"
	"kusto-agent/internal/script"
	"kusto-agent/internal/telemetry"
)

// runAll connects to the cluster and runs the statements in order; it stops at the first error. If
// all is nil it opens a session on the terminal. Errors have exit codes.
func (a *Shell) runAll(ctx context.Context, all []script.Statement) error {
	var err error
	if a.to, err = a.Target.connect(); err != nil {
		return err
	}
	defer a.to.Close()
	a.Query.Database = cmp.Or(a.Query.Database, a.to.Cluster.Database)
	if all == nil {
		return a.session(ctx)
	}
	if err := a.Paper.begin(); err != nil {
		return err
	}
	for _, s := range all {
		if err = a.runStatement(ctx, s); err != nil {
			err = placed(err, at(s, all))
			break
		}
	}
	return a.Paper.end(err)
}

// placed puts where, the place of a statement such as "line 3: ", before the text of an error, and
// keeps its exit code. It changes nothing if where is "".
func placed(err error, where string) error {
	var ended *exit.Error
	if where == "" || !errors.As(err, &ended) || ended.Err == nil {
		return err
	}
	return exit.With(ended.Code, fmt.Errorf("%s%w", where, ended.Err))
}

// runStatement runs one statement and prints its result. The first SIGINT or SIGTERM cancels the
// statement on the service, the second ends the program. Errors have exit codes.
func (a *Shell) runStatement(ctx context.Context, s script.Statement) error {
	q := a.next(s)
	about := new(rows.About)
	to, err := a.Paper.printer(about)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx, a.Paper.abandon)
	defer stop()
	eyes := watch(to, about, a.Paper.out, a.Paper.to)
	if console.IsTerminal(os.Stderr) {
		eyes.words = os.Stderr
	}
	q.OnWait = func(why *kusto.Error, wait time.Duration) {
		eyes.say("the service is busy (%v); asking again in %v, as it says", why, wait.Round(time.Millisecond))
	}
	end := eyes.begin()
	err = a.to.Query(ctx, q, eyes)
	end()
	if err == nil || a.Paper.Rows.Form != rows.JSONArray { // an array that is closed has all rows
		err = cmp.Or(err, to.End())
	}
	err = cmp.Or(err, a.Paper.out.Flush())
	if err != nil && ctx.Err() != nil {
		return stopped(q, err)
	}
	if err != nil {
		return endpoint.Failure(a.Target.hinted(err))
	}
	a.Paper.noteLeft(to.Left())
	if a.Paper.Stats {
		a.Paper.note("%s; request %s", about.Summary(time.Since(eyes.began), eyes.rows), q.RequestID)
	}
	return nil
}

// next returns the request that sends a statement. A management command goes to the endpoint for
// commands, always by POST. If the user gave a request id, each request after the first has it with
// a number appended.
func (a *Shell) next(s script.Statement) *query.Query {
	q := a.Query
	q.Text = s.Text
	switch {
	case query.IsCommand(s.Text):
		q.Call, q.Get = query.Mgmt, false
	case a.V1:
		q.Call = query.QueryV1
	default:
		q.Call = query.QueryV2
	}
	if a.sent++; q.RequestID != "" && a.sent > 1 {
		q.RequestID += fmt.Sprintf(".%d", a.sent)
	}
	return &q
}

// interruptible returns a context that the first SIGINT or SIGTERM ends; at the second one it calls
// atLast and ends the program. The caller must call stop, which restores the default handling.
func interruptible(parent context.Context, atLast func()) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	ignore := onSignals(func() {
		if ctx.Err() != nil {
			atLast()
			os.Exit(exit.Interrupted)
		}
		cancel()
	}, syscall.SIGINT, syscall.SIGTERM)
	return ctx, func() {
		ignore()
		cancel()
	}
}

// onSignals calls act at each of the signals, in a goroutine of its own. The caller must call stop,
// which waits for act and restores the default handling.
func onSignals(act func(), which ...os.Signal) (stop func()) {
	signals, quit := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, which...)
	// Ended and awaited by stop.
	done := async.Start(func() {
		for {
			select {
			case <-signals:
				act()
			case <-quit:
				return
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(quit)
		<-done
	}
}

// stopped returns the error for a request that a person has interrupted, with its exit code. The
// text says whether the request was cancelled on the service too. err is the error of the request.
func stopped(q *query.Query, err error) error {
	if unstopped, ok := errors.AsType[*query.UnstoppedError](err); ok {
		return exit.With(exit.Interrupted, fmt.Errorf("stopped; %s could not be cancelled on the service and may still run there: %w", q.RequestID, unstopped.Why))
	}
	return exit.With(exit.Interrupted, fmt.Errorf("stopped; %s was cancelled on the service too", q.RequestID))
}

// session reads statements from the terminal and runs them until the user leaves. In the background
// it reads the names of tables and columns for completion, again after each command that may change
// them.
func (a *Shell) session(ctx context.Context) error {
	history, err := console.OpenHistory(console.DefaultHistory())
	if err != nil {
		a.Paper.note("%v", err)
	}
	defer a.restoring()()
	names := &names{a: a}
	names.learn(ctx, a.Query.Database)
	defer names.stop()
	err = console.Run(console.Options{
		Prompt:  func() string { return cmp.Or(telemetry.Printable(a.Query.Database), "no database") + "> " },
		Schema:  names.known,
		History: history,
		Words:   a.Paper.words,
		Run: func(s script.Statement) error {
			err := a.Paper.out.End(a.runStatement(ctx, s))
			if text := strings.ToLower(s.Text); query.IsCommand(text) && !strings.Contains(text, ".show") {
				names.learn(ctx, a.Query.Database)
			}
			return err
		},
		Commands: []console.Command{
			{Name: `\db`, Args: "NAME", Help: "ask this database from now on", Run: func(name string) error {
				if name == "" {
					return errors.New(`\db wants the name of a database; .show databases lists them`)
				}
				a.Query.Database = name
				names.learn(ctx, name)
				return nil
			}},
			{Name: `\format`, Args: "NAME", Help: "print so from now on, such as csv, json or vertical; auto: tables and charts", Run: a.format},
		},
	})
	return exit.Default(exit.Failed, err)
}

// format sets the form in which results of this session are printed, by its name; auto means
// tables, and charts if the query asks for one. A form that does not suit the other options is an
// error and changes nothing.
func (a *Shell) format(name string) error {
	was := a.Paper.Rows.Form
	form, ok := rows.FormOf(name)
	switch {
	case name == "auto":
		form = rows.Table
	case name == string(FormChart):
		form = FormChart
	case !ok:
		return fmt.Errorf(`\format %s: want auto, table, csv, tsv, json, json-array, markdown, vertical or chart`, name)
	}
	a.Paper.Rows.Form = form
	if err := a.Paper.Rows.Check(); err != nil {
		a.Paper.Rows.Form = was
		return err
	}
	a.Paper.auto = name == "auto"
	return nil
}

// restoring makes SIGHUP and SIGTERM restore the mode of the terminal before they end the program.
// The caller must call stop. Without a terminal it does nothing.
func (a *Shell) restoring() (stop func()) {
	fd := int(os.Stdin.Fd())
	was, err := term.GetState(fd)
	if err != nil {
		return func() {}
	}
	return onSignals(func() {
		_ = term.Restore(fd, was)
		os.Exit(exit.Interrupted)
	}, syscall.SIGHUP, syscall.SIGTERM)
}

// names are those of the schema, learned while a person types.
type names struct {
	a      *Shell
	cancel context.CancelFunc
	until  time.Time       // a person waits for them
	done   <-chan struct{} // closed when they are known, or cannot be
	of     string          // the database
	schema *console.Schema // may be read when done is closed
}

// learnPatience is how long a person who presses Tab waits for a schema that is on
// its way, from when it was asked for.
const learnPatience = 10 * time.Second

// learn starts to read the schema of a database for completion, in the background, after it has
// stopped an earlier reading. If the schema cannot be read, the one that was read before of the same
// database, if any, stays in use.
func (n *names) learn(ctx context.Context, database string) {
	n.stop()
	if database != n.of {
		n.of, n.schema = database, nil
	}
	ctx, n.cancel = context.WithCancel(ctx)
	n.until = time.Now().Add(learnPatience)
	// Ended by stop, which waits for it.
	n.done = async.Start(func() {
		q := &query.Query{Call: query.Mgmt, Database: database, ReadOnly: true, Text: ".show database schema as json", App: n.a.Query.App, User: n.a.Query.User}
		if database != "" {
			q.Text = ".show database " + kusto.EntityName(database) + " schema as json"
		}
		var got query.Collector
		if n.a.to.Query(ctx, q, &got) != nil {
			return
		}
		got.Each(func(row map[string]string) {
			if schema, err := console.ParseSchema(row["DatabaseSchema"]); err == nil {
				n.schema = schema
			}
		})
	})
}

// known returns the schema of the database that was read last, for completion; nil if there is none. While one is
// being read, known waits for it until learnPatience has passed since the start, and then returns
// nil.
func (n *names) known() *console.Schema {
	select {
	case <-n.done:
		return n.schema
	case <-time.After(time.Until(n.until)):
		return nil
	}
}

// stop cancels the reading of a schema and waits until its goroutine has ended. It may be called
// without a reading.
func (n *names) stop() {
	if n.cancel != nil {
		n.cancel()
		<-n.done
	}
}
