package sender

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

// request makes one request for a payload: it waits for the rate limit, counts the attempt, writes it
// to the journal, sends the body, and reports the answer to the delivery machine. A request that is
// canceled by the stop of the sender is reported as BrokenOff.
func (s *Sender) request(p *delivery.Payload) {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	d := p.Data
	if s.waitForRate(ctx, d.RawBytes) != nil {
		s.report(delivery.BrokenOff{P: p})
		return
	}
	if d.Attempt++; d.Attempt > 1 {
		s.o.Metrics.Retry()
	}
	s.begin(p)
	// Neither the limit nor the journal counts for retry.patience: it begins here.
	s.report(delivery.Asked{P: p})
	began := time.Now()
	ans := s.ingest(ctx, d.Route.Cluster, &kusto.Ingest{
		Database:  d.Route.Database,
		Table:     d.Route.Table,
		Format:    string(d.Route.Format),
		Mapping:   d.Route.Mapping,
		Body:      d.Body,
		Gzip:      d.Gzip,
		RequestID: fmt.Sprintf("kusto-agent.ingest;%v;%d", d.ID, d.Attempt),
	})
	s.o.Metrics.Request(outcome(ans.Verdict), code(ans.Status), time.Since(began))
	if ctx.Err() != nil && ans.Verdict != kusto.Accepted {
		// Broken off by us: it says nothing of the service.
		if ans.Wrote {
			_ = s.o.Batches.Unknown(d.ID, d.Attempt)
		}
		s.report(delivery.BrokenOff{P: p, Unknown: ans.Wrote})
		return
	}
	if ans.Verdict == kusto.Unknown {
		s.o.Metrics.Unknown(d.Records)
		_ = s.o.Batches.Unknown(d.ID, d.Attempt)
	} else if ans.Verdict != kusto.Accepted && p.Place == delivery.Spooled {
		_ = s.o.Replays.Answered(d.ID, d.Attempt)
	}
	if ans.UpdatePolicy != "" {
		s.logUpdatePolicy(d, &ans)
	}
	s.report(delivery.Answered{P: p, Answer: ans})
}

// waitForRate blocks until send.rate_limit lets this many bytes pass. A limit that is changed
// meanwhile applies at once. The error is that of ctx; without a limit waitForRate does not block.
func (s *Sender) waitForRate(ctx context.Context, bytes int) error {
	for {
		s.mu.Lock()
		limiter, changed := s.limiter, s.limits
		s.mu.Unlock()
		if limiter == nil {
			return ctx.Err()
		}
		turn := limiter.ReserveN(time.Now(), bytes)
		wait := turn.Delay()
		if wait == 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			return nil
		case <-changed: // the new limit decides
		case <-ctx.Done():
		}
		timer.Stop()
		turn.Cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// outcome returns the value of the metric label outcome for a verdict. Every verdict without a case
// of its own is "refused", also the one that there was no token for the request.
func outcome(v kusto.Verdict) string {
	switch v {
	case kusto.Accepted:
		return "accepted"
	case kusto.Unknown:
		return "unknown"
	case kusto.NotSent:
		return "not_sent"
	}
	return "refused"
}

// code returns the value of the metric label code: the HTTP status, or "none" for 0, no answer.
func code(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

// begin writes to the journal that a request for the payload is about to be made: as a replay if it
// lies in the spool under its own id, otherwise as the begin of a batch. A write error is not
// returned: the journal logs that duplicates are no longer bounded, and delivery goes on.
func (s *Sender) begin(p *delivery.Payload) {
	if p.Place == delivery.Spooled {
		_ = s.o.Replays.Replay(p.Data.ID, p.Data.Attempt)
		return
	}
	_ = s.o.Batches.Begin(p.Data)
}

// end writes the outcome of a payload to the journal and to the spool, if it has a copy there. It
// then counts the records in the books (what became of the records of each input) and in the
// metrics, gives the memory of the payload back, and reports Ended. The payload must not be used
// after that.
func (s *Sender) end(p *delivery.Payload, how record.Outcome) {
	d := p.Data
	s.close(p, how)
	switch how {
	case record.Accepted:
		d.Lots(s.o.Books.Accepted)
		s.o.Metrics.EndToEnd(d.Route, time.Since(d.ReadAt))
	case record.Quarantined:
		d.Lots(func(lot record.Lot) { s.o.Books.Quarantined(lot, record.Refused) })
	}
	s.o.Memory.Release(d)
	s.report(delivery.Ended{P: p})
}

// close writes the outcome of a payload to the journal, and ends its copy in the spool, if there is
// one. Where the bytes of the payload are, its Place, says which entries that takes: see the cases.
// Errors of these writes are left to the journal, which logs them.
func (s *Sender) close(p *delivery.Payload, how record.Outcome) {
	d := p.Data
	switch p.Place {
	case delivery.Spooled: // it is in the spool under its own id
		_ = s.o.Replays.EndReplay(d.ID, how)
		s.o.Backlog.Done(d.ID, how)
	case delivery.Rebuilt: // the spool has a damaged copy under p.Frame; it was made again as d.ID
		_ = s.o.Batches.End(d.ID, how)
		_ = s.o.Replays.EndReplay(p.Frame, record.Replaced)
		s.o.Backlog.Done(p.Frame, record.Replaced)
	case delivery.Perhaps: // a write to the spool failed, and may have reached the disk
		_ = s.o.Batches.End(d.ID, how)
		_ = s.o.Replays.EndReplay(d.ID, how) // for the copy that the next start may find there
	default:
		_ = s.o.Batches.End(d.ID, how)
	}
}

// divide splits a payload that was refused, or is too large, into two halves, writes the split to
// the journal, and reports Divided with the halves, or NotDivided with the reason. The halves of a
// payload in the spool are written to the spool before the payload is removed there. The memory of
// the payload is given back once it is divided.
func (s *Sender) divide(p *delivery.Payload) {
	halves, err := s.o.Divider.Split(p.Data)
	switch {
	case errors.Is(err, record.ErrWhole):
		s.report(delivery.NotDivided{P: p, Why: delivery.IsWhole})
		return
	case err != nil:
		s.report(delivery.NotDivided{P: p, Why: delivery.Failed, Err: err})
		return
	case p.Place.InSpool():
		if !s.holdHalves(p, halves) { // the spool logs why
			s.report(delivery.NotDivided{P: p, Why: delivery.SpoolFull})
			return
		}
		s.close(p, record.Split)
	default:
		if p.Data.Attempt == 0 { // no request was made: the journal needs a begin before the split
			_ = s.o.Batches.Begin(p.Data)
		}
		_ = s.o.Batches.Split(p.Data.ID, halves)
		if p.Place == delivery.Perhaps {
			_ = s.o.Replays.EndReplay(p.Data.ID, record.Split) // for a copy that the next start may find
		}
	}
	s.o.Memory.Release(p.Data)
	s.report(delivery.Divided{P: p, Halves: halves})
}

// holdHalves writes both halves of the payload p to the spool and reports whether it did. If one
// write fails, it ends the halves in journal and spool as Replaced, gives their memory back and
// returns false; p itself is unchanged then.
func (s *Sender) holdHalves(p *delivery.Payload, halves []*record.Payload) bool {
	for i, h := range halves {
		h.Replaces = p.Frame // a restart that finds p waiting in the spool then leaves its halves out
		_ = s.o.Batches.Begin(h)
		if s.o.Spill.Hold(h) == nil {
			_ = s.o.Batches.End(h.ID, record.Spooled)
			continue
		}
		for _, kept := range halves[:i] {
			_ = s.o.Replays.EndReplay(kept.ID, record.Replaced)
			s.o.Backlog.Done(kept.ID, record.Replaced)
		}
		_ = s.o.Replays.EndReplay(h.ID, record.Replaced) // for a copy that the next start may find
		for _, h := range halves {
			_ = s.o.Batches.End(h.ID, record.Replaced) // has an effect only on a half that is begun
			s.o.Memory.Release(h)
		}
		return false
	}
	return true
}

// quarantine writes the records of a refused payload to quarantine, with the error of the service
// as their reason, and reports Quarantined or NotQuarantined. The records are durable before the
// payload is ended in the journal. If a record is redacted and has no bytes, neither its entry nor
// the log shows the message of the service, which may quote the record.
func (s *Sender) quarantine(p *delivery.Payload, ans *kusto.Answer) {
	d := p.Data
	recs, err := s.o.Divider.Records(d)
	said := *ans.Err
	for i := range recs {
		r := &recs[i]
		r.Route, r.Reason, r.Code = d.Route, record.Refused, ans.Err.Code
		switch {
		case r.Redacted && len(r.Data) == 0:
			said.Message = ""
		case r.Message != "":
			r.Message = ans.Err.Message + " (" + r.Message + ")"
		default:
			r.Message = ans.Err.Message
		}
	}
	if err == nil {
		err = s.o.Quarantine.Put(recs)
	}
	if err != nil {
		s.report(delivery.NotQuarantined{P: p, Err: err})
		return
	}
	s.logRefused(d.Route, d.Records, ans.ActivityID, &said)
	s.report(delivery.Quarantined{P: p})
}
