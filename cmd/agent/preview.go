package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"kusto-agent/batcher"
	"kusto-agent/config"
	"kusto-agent/internal/async"
	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/journal"
	"kusto-agent/kusto"
	"kusto-agent/ledger"
	"kusto-agent/record"
	"kusto-agent/recovery"
	"kusto-agent/tail"
	"kusto-agent/telemetry"
)

func previewCommand() *cobra.Command {
	v := preview{}
	var path string
	cmd := &cobra.Command{
		Use:   "preview INPUT",
		Short: "Print the next request an input would make, sending nothing",
		Long: "Print the next request an input would make with run --once from what its files hold now, behind what the\n" +
			"agent has dealt with already: its headers, with the token masked, and the beginning of its body before gzip.\n" +
			"Nothing is sent or written, and a running agent is not disturbed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(path)
			if err != nil {
				return err
			}
			v.out = console.NewOutput(cmd.OutOrStdout())
			return v.out.End(v.run(cmd.Context(), cfg, args[0]))
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	cmd.Flags().IntVar(&v.records, "records", 10, "how many records of the body to show")
	cmd.Flags().BoolVar(&v.json, "json", false, "print one JSON document")
	return cmd
}

// preview is one run of the command.
type preview struct {
	records int
	json    bool
	out     console.Output
}

func (v *preview) run(ctx context.Context, cfg *config.Config, name string) error {
	i := slices.IndexFunc(cfg.Inputs, func(in config.Input) bool { return in.Name == name })
	if i < 0 {
		var names []string
		for _, in := range cfg.Inputs {
			names = append(names, in.Name)
		}
		return exit.With(exit.Usage, fmt.Errorf("there is no input %q; the configuration has %s", name, strings.Join(names, ", ")))
	}
	in := &cfg.Inputs[i]
	past, err := journal.Look(filepath.Join(cfg.StateDir, "journal"))
	if err != nil {
		return exit.Reading(err)
	}
	c := newCatcher(past, cfg.Folders())
	p, err := c.first(ctx, in)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	if p == nil {
		return exit.With(exit.Failed, fmt.Errorf("there is nothing to send for input %s: %s", name, c.why()))
	}
	return v.show(cfg, in, p, c)
}

// show prints the request for a payload.
func (v *preview) show(cfg *config.Config, in *config.Input, p *record.Payload, c *catcher) error {
	to, err := endpoint.New(endpoint.KeyOf(in.Cluster, cfg.Clusters[in.Cluster], cfg), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return exit.With(exit.Config, fmt.Errorf("cluster %s: %w", in.Cluster, err))
	}
	defer to.Client.Close()
	defer to.Tokens.Close()
	req, err := to.Client.Preview(&kusto.Ingest{
		Database: p.Route.Database, Table: p.Route.Table, Format: string(p.Route.Format), Mapping: p.Route.Mapping,
		Body: p.Body, Gzip: p.Gzip, RequestID: fmt.Sprintf("kusto-agent.ingest;%v;1", p.ID),
	})
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	sample, err := sampleOf(p, v.records)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	if v.json {
		return v.out.JSON(v.document(req, p, sample, c))
	}
	fmt.Fprintf(os.Stderr, "%s, %s before gzip and %s after, from %s\n", console.Counted(p.Records, "record"), telemetry.BytesText(int64(p.RawBytes)), telemetry.BytesText(int64(len(p.Body))), c.places(p))
	for _, r := range c.rejected {
		fmt.Fprintln(os.Stderr, telemetry.Printable(fmt.Sprintf("quarantine: offset %d of %s, %s: %s", r.Offset, r.Path, r.Reason, r.Message)))
	}
	fmt.Fprintf(v.out, "%s %s HTTP/1.1\nHost: %s\n", req.Method, req.URL.RequestURI(), req.Host)
	for _, key := range slices.Sorted(maps.Keys(req.Header)) {
		fmt.Fprintf(v.out, "%s: %s\n", key, strings.Join(req.Header[key], ", "))
	}
	fmt.Fprintf(v.out, "Content-Length: %d\n\n", req.ContentLength)
	return v.out.Record(sample)
}

// document is what --json prints.
func (v *preview) document(req *http.Request, p *record.Payload, sample []byte, c *catcher) any {
	doc := map[string]any{
		"method": req.Method, "url": req.URL.String(), "headers": req.Header, "content_length": req.ContentLength,
		"records": p.Records, "raw_bytes": p.RawBytes, "ranges": recovery.Where(p.Cover), "quarantined": len(c.rejected),
	}
	if utf8.Valid(sample) {
		doc["body"] = string(sample)
	} else {
		doc["body_base64"] = sample
	}
	return doc
}

// sampleOf is the beginning of a body: whole records where they are lines.
func sampleOf(p *record.Payload, records int) ([]byte, error) {
	raw, err := batcher.Raw(p)
	if err != nil {
		return nil, err
	}
	const most = 64 << 10
	end := 0
	for ; records > 0 && end < len(raw); records-- {
		i := bytes.IndexByte(raw[end:], '\n')
		if i < 0 {
			i = len(raw) - end - 1
		}
		end += i + 1
	}
	return raw[:min(end, most)], nil
}

// catcher reads files as the agent does and keeps the first payload. Whatever
// would be written is kept from being so.
type catcher struct {
	past  *journal.Past // nil: nothing was read before
	avoid []string
	more  chan struct{} // there is something in got

	mu       sync.Mutex
	got      []*record.Payload
	rejected []record.Rejected // the first of them
	tailer   *tail.Tailer
}

func newCatcher(past *journal.Past, avoid []string) *catcher {
	return &catcher{past: past, avoid: avoid, more: make(chan struct{}, 1)}
}

// first returns the first payload that an input would send; nil: none.
func (c *catcher) first(ctx context.Context, in *config.Input) (*record.Payload, error) {
	b := batcher.New(batcher.Options{Routes: map[record.Route]batcher.Limits{in.Route(): in.Limits()}, Memory: 64 << 20, Next: c})
	t, err := tail.New(tail.Options{
		Inputs: []tail.Input{in.Tail()}, Positions: c, Sink: sink{b}, Quarantine: refusals{c}, Books: ledger.New(), Metrics: quiet{},
		Logger: slog.New(slog.DiscardHandler), OpenFiles: 64, Once: true, Avoid: c.avoid,
	})
	if err != nil {
		return nil, err
	}
	c.tailer = t
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batching := async.Start(b.Run)
	reading := async.Start(func() { t.Run(ctx, ctx) })
	defer func() {
		cancel()
		<-reading
		b.Close()
		<-batching
	}()
	select {
	case <-c.more:
		return c.earliest(), nil
	case <-reading:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b.Close() // seals what is open, in any order
	<-batching
	return c.earliest(), nil
}

// earliest is, of the payloads there are, the one whose records are first in the file
// that comes first by its path; nil: there is none.
func (c *catcher) earliest() *record.Payload {
	paths := c.paths()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.got) == 0 {
		return nil
	}
	return slices.MinFunc(c.got, func(a, b *record.Payload) int {
		x, y := a.Cover[0], b.Cover[0]
		return cmp.Or(strings.Compare(paths[x.File], paths[y.File]), cmp.Compare(x.File.Generation, y.File.Generation), cmp.Compare(x.Start, y.Start))
	})
}

// paths are those of the files that are being read.
func (c *catcher) paths() map[record.File]string {
	paths := map[record.File]string{}
	for _, f := range c.tailer.Files() {
		paths[f.File] = f.Path
	}
	return paths
}

// why says why there is nothing.
func (c *catcher) why() string {
	if n := len(c.rejected); n > 0 {
		return fmt.Sprintf("%s would go to quarantine, and no other was read", console.Counted(n, "record"))
	}
	var all []string
	for path, why := range c.tailer.Problems() {
		all = append(all, path+": "+why)
	}
	if len(all) > 0 {
		return strings.Join(slices.Sorted(slices.Values(all)), "; ")
	}
	return "its files hold nothing that is not dealt with already"
}

// places names the files of a payload by their paths.
func (c *catcher) places(p *record.Payload) string {
	paths := c.paths()
	var all []string
	for _, x := range p.Cover {
		all = append(all, telemetry.Printable(cmp.Or(paths[x.File], x.File.String()))+" "+strconv.FormatInt(x.Start, 10)+" to "+strconv.FormatInt(x.End, 10))
	}
	return strings.Join(all, ", ")
}

// As the sender, for one payload of each kind.
func (c *catcher) Credit(record.Route) (int, bool) { return 1, true }
func (c *catcher) Put(p *record.Payload) {
	c.mu.Lock()
	c.got = append(c.got, p)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// As the journal, which is only read.
func (c *catcher) Files(input string) []tail.State {
	if c.past == nil {
		return nil
	}
	return statesOf(c.past.Files(input))
}
func (c *catcher) InputKnown(name string) bool                      { return c.past != nil && c.past.InputSeen(name) }
func (c *catcher) InputSeen(name string) (bool, error)              { return c.InputKnown(name), nil }
func (c *catcher) Register(record.File, record.FileInfo) error      { return nil }
func (c *catcher) Skip(record.File, record.Span, record.Mark) error { return nil }
func (c *catcher) Forget(record.File) error                         { return nil }

// putAway is how many records for quarantine are named.
const putAway = 20

// refusals keeps the first records that would go to quarantine, without their bytes.
type refusals struct{ *catcher }

func (c refusals) Put(recs []record.Rejected) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range recs[:min(len(recs), putAway-len(c.rejected))] {
		r.Data = nil
		c.rejected = append(c.rejected, r)
	}
	return nil
}

// quiet is told what happens to files and keeps it to itself.
type quiet struct{}

func (quiet) Rotation(string)          {}
func (quiet) Truncation(string, int64) {}
func (quiet) Abandoned(string, int64)  {}
func (quiet) InvalidUTF8(string, int)  {}
func (quiet) Unparsed(string, int)     {}
func (quiet) NULs(string, int64)       {}
