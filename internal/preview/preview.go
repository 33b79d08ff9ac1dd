// Package preview shows what an input would send, and promises that nothing is sent or
// written for that: a running agent is not disturbed.
package preview

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

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

// Preview says what is shown, and where.
type Preview struct {
	Records int            // how many records are shown
	JSON    bool           // one JSON document
	Compare bool           // records before and after, instead of the next request
	File    string         // with Compare, the file to read; empty: the newest of the input
	Out     console.Output // for the request, or the records
	Words   io.Writer      // for what a person is told beside them
}

// Run prints the next request that the input of this name would make, after what the agent has
// dealt with already, or with v.Compare what the input makes of one file. Nothing is sent. Its
// errors have exit codes, except those of writing.
func (v *Preview) Run(ctx context.Context, cfg *config.Config, name string) error {
	i := slices.IndexFunc(cfg.Inputs, func(in config.Input) bool { return in.Name == name })
	if i < 0 {
		var names []string
		for _, in := range cfg.Inputs {
			names = append(names, in.Name)
		}
		return exit.With(exit.Usage, fmt.Errorf("there is no input %q; the configuration has %s", name, strings.Join(names, ", ")))
	}
	in := &cfg.Inputs[i]
	if v.Compare {
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

// show prints the request that would carry the payload p: its headers, with the token masked, and
// the first v.Records records of its body before gzip. c has what was left out or rejected on the
// way. With v.JSON it prints one document.
func (v *Preview) show(cfg *config.Config, in *config.Input, p *record.Payload, c *pipeline.Peek) error {
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
	sample := firstOf(raw, v.Records)
	if v.JSON {
		return v.Out.JSON(v.document(req, p, sample, c))
	}
	fmt.Fprintf(v.Words, "%s, %s before gzip and %s after, from %s\n", units.Counted(p.Records, "record"), telemetry.BytesText(int64(p.RawBytes)), telemetry.BytesText(int64(len(p.Body))), c.Places(p))
	for _, r := range c.Rejected() {
		fmt.Fprintln(v.Words, telemetry.Printable(fmt.Sprintf("quarantine: offset %d of %s, %s: %s", r.Offset, r.Path, r.Reason, r.Message)))
	}
	if left := c.LeftOutText(); left != "" {
		fmt.Fprintln(v.Words, "left out: "+left)
	}
	fmt.Fprintf(v.Out, "%s %s HTTP/1.1\nHost: %s\n", req.Method, req.URL.RequestURI(), req.Host)
	for _, key := range slices.Sorted(maps.Keys(req.Header)) {
		fmt.Fprintf(v.Out, "%s: %s\n", key, strings.Join(req.Header[key], ", "))
	}
	fmt.Fprintf(v.Out, "Content-Length: %d\n\n", req.ContentLength)
	return v.Out.Record(sample)
}

// document returns the JSON document of the request req for the payload p: its headers, the ranges
// of files that it has, and sample, the beginning of its body. A sample that is not UTF-8 is in
// base64.
func (v *Preview) document(req *http.Request, p *record.Payload, sample []byte, c *pipeline.Peek) any {
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

// firstOf returns the beginning of raw, a body before gzip: as many lines as records, at most 64
// KiB. It is a part of raw, not a copy.
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
