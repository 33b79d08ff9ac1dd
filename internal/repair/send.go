package repair

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// Sender makes one request to the cluster of a URL.
type Sender interface {
	Ingest(ctx context.Context, cluster string, in *kusto.Ingest) kusto.Answer
}

// Result is what became of a plan. What the table has of it only the table can tell.
type Result struct {
	Records int     `json:"records"` // of requests that were accepted
	Unknown []Range `json:"unknown"` // sent, and no trustworthy answer came
	Failed  []Range `json:"failed"`  // not accepted
}

// mostTries is how often one payload is sent that was surely not stored.
const mostTries = 6

// Run sends the payloads of the plan one at a time, until ctx ends, and returns what became of
// them. It does not repeat a request without a trustworthy answer: the records may be stored, and
// the table has to be asked first. After a refusal that is not about the payload alone, the other
// payloads of its route (table, format and mapping) fail with the same reason, without a request.
func (p *Plan) Run(ctx context.Context, from Source, to Sender) *Result {
	r := &Result{Unknown: []Range{}, Failed: []Range{}}
	held := map[record.Route]string{}
	for _, s := range p.all {
		why, unknown := held[s.Route], false
		if why == "" {
			var all bool
			if why, unknown, all = deliver(ctx, s.Payload, from, to); all {
				held[s.Route] = why
			}
		}
		switch {
		case why == "":
			r.Records += s.Records
			continue
		case unknown:
			r.Unknown = append(r.Unknown, because(s.ranges, why)...)
		default:
			r.Failed = append(r.Failed, because(s.ranges, why)...)
		}
	}
	return r
}

// because returns a copy of the ranges, each with this reason.
func because(all []Range, why string) (out []Range) {
	for _, r := range all {
		r.Why = why
		out = append(out, r)
	}
	return out
}

// deliver reads one payload from its files and sends it. why is empty if it was accepted, and
// otherwise says what happened. unknown is set if no trustworthy answer came, so that it may be
// stored. all is set if other payloads of its route need not be tried. After an answer that surely
// means that nothing was stored, and that may pass, it is sent again after a backoff, mostTries
// times in all.
func deliver(ctx context.Context, p *record.Payload, from Source, to Sender) (why string, unknown, all bool) {
	if _, err := from.Read(p); err != nil { // also if the files have changed since the plan was made
		return err.Error(), false, false
	}
	from.Pack(p)
	defer func() { p.Body = nil }()
	schedule := backoff.NewExponentialBackOff(backoff.WithInitialInterval(500*time.Millisecond), backoff.WithMaxElapsedTime(0))
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err.Error(), false, true
		}
		ans := to.Ingest(ctx, p.Route.Cluster, &kusto.Ingest{
			Database: p.Route.Database, Table: p.Route.Table, Format: string(p.Route.Format), Mapping: p.Route.Mapping,
			Body: p.Body, Gzip: p.Gzip, RequestID: fmt.Sprintf("kusto-agent.ingest;%v;%d", p.ID, try),
		})
		switch ans.Verdict {
		case kusto.Accepted:
			return "", false, false
		case kusto.Unknown:
			return "no trustworthy answer came: " + words(&ans), true, false
		case kusto.TooLarge, kusto.BadData:
			return words(&ans), false, false
		case kusto.Hold:
			return words(&ans), false, true
		case kusto.Auth:
			if ans.Token() == kusto.TokenRefused {
				return words(&ans), false, true
			}
		}
		if try == mostTries {
			return words(&ans), false, true
		}
		timer := time.NewTimer(max(ans.RetryAfter, schedule.NextBackOff()))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// words returns in words why an answer is no acceptance, and what can be done about it.
func words(ans *kusto.Answer) string {
	text := ans.Verdict.String()
	if ans.Err != nil {
		text = ans.Err.Error()
	}
	if ans.Hint != "" {
		text += "; to fix it: " + ans.Hint
	}
	return text
}
