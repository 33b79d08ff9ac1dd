package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

func previewCommand() *cobra.Command {
	v := preview{}
	var path string
	cmd := &cobra.Command{
		Use:   "preview INPUT",
		Short: "Print the next request an input would make, sending nothing",
		Long: "Print the next request an input would make with run --once from what its files hold now, behind what the\n" +
			"agent has dealt with already: its headers, with the token masked, and the beginning of its body before gzip.\n" +
			"Nothing is sent or written, and a running agent is not disturbed.\n\n" +
			"With --before-after: what the input makes of the records of one file from its beginning, sent before or not:\n" +
			"how the first ones are and how they are sent, or which rule leaves them out; behind them the first of each\n" +
			"other fate; and counts of the whole file.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if v.file != "" && !v.compare {
				return exit.With(exit.Usage, errors.New("--file is for --before-after"))
			}
			cfg, err := loadConfig(path)
			if err != nil {
				return err
			}
			v.out = console.NewOutput(cmd.OutOrStdout())
			return v.out.End(v.run(cmd.Context(), cfg, args[0]))
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	cmd.Flags().IntVar(&v.records, "records", 10, "how many records to show")
	cmd.Flags().BoolVar(&v.compare, "before-after", false, "show records before and after, which rule acts on them, and counts of a whole file")
	cmd.Flags().StringVar(&v.file, "file", "", "the `file` for --before-after, which the input need not match (default: the newest one of the input)")
	cmd.Flags().BoolVar(&v.json, "json", false, "print one JSON document")
	return cmd
}

// preview is one run of the command.
type preview struct {
	records int
	json    bool
	compare bool // before and after
	file    string
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
	if v.compare {
		return v.beforeAfter(ctx, in)
	}
	past, err := pipeline.Past(cfg)
	if err != nil {
		return exit.Reading(err)
	}
	c := pipeline.NewPeek(cfg, past)
	p, err := c.First(ctx, in)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	if p == nil {
		return exit.With(exit.Failed, fmt.Errorf("there is nothing to send for input %s: %s", name, c.Why()))
	}
	return v.show(cfg, in, p, c)
}

// show prints the request for a payload.
func (v *preview) show(cfg *config.Config, in *config.Input, p *record.Payload, c *pipeline.Peek) error {
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
	raw, err := pipeline.Raw(p)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	sample := firstOf(raw, v.records)
	if v.json {
		return v.out.JSON(v.document(req, p, sample, c))
	}
	fmt.Fprintf(os.Stderr, "%s, %s before gzip and %s after, from %s\n", units.Counted(p.Records, "record"), telemetry.BytesText(int64(p.RawBytes)), telemetry.BytesText(int64(len(p.Body))), c.Places(p))
	for _, r := range c.Rejected() {
		fmt.Fprintln(os.Stderr, telemetry.Printable(fmt.Sprintf("quarantine: offset %d of %s, %s: %s", r.Offset, r.Path, r.Reason, r.Message)))
	}
	if left := c.LeftOutText(); left != "" {
		fmt.Fprintln(os.Stderr, "left out: "+left)
	}
	fmt.Fprintf(v.out, "%s %s HTTP/1.1\nHost: %s\n", req.Method, req.URL.RequestURI(), req.Host)
	for _, key := range slices.Sorted(maps.Keys(req.Header)) {
		fmt.Fprintf(v.out, "%s: %s\n", key, strings.Join(req.Header[key], ", "))
	}
	fmt.Fprintf(v.out, "Content-Length: %d\n\n", req.ContentLength)
	return v.out.Record(sample)
}

// document is what --json prints.
func (v *preview) document(req *http.Request, p *record.Payload, sample []byte, c *pipeline.Peek) any {
	doc := map[string]any{
		"method": req.Method, "url": req.URL.String(), "headers": req.Header, "content_length": req.ContentLength,
		"records": p.Records, "raw_bytes": p.RawBytes, "ranges": recovery.Where(p.Cover), "quarantined": len(c.Rejected()),
		"filtered": c.LeftOut(),
	}
	if utf8.Valid(sample) {
		doc["body"] = string(sample)
	} else {
		doc["body_base64"] = sample
	}
	return doc
}

// firstOf is the first of a body: whole records where they are lines.
func firstOf(raw []byte, records int) []byte {
	const most = 64 << 10
	end := 0
	for ; records > 0 && end < len(raw); records-- {
		i := bytes.IndexByte(raw[end:], '\n')
		if i < 0 {
			i = len(raw) - end - 1
		}
		end += i + 1
	}
	return raw[:min(end, most)]
}
