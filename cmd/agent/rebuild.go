package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kusto-agent/batcher"
	"kusto-agent/config"
	"kusto-agent/ledger"
	"kusto-agent/record"
	"kusto-agent/tail"
)

// Batches that an earlier run began and did not end have an unknown outcome.
// Each is made again from its ranges and sent under its own id, so that the
// rows that may be double are named.

// letGoForeign ends the batches whose cluster or input is no longer configured,
// before reading begins: their ranges are not safe, and are read again by the
// input that has their files, now or when it is configured again.
func (a *agent) letGoForeign() {
	kept := a.begun[:0]
	for _, b := range a.begun {
		err := a.foreign(&b.Payload)
		if err == nil {
			kept = append(kept, b)
			continue
		}
		a.log.Warn("batch of an earlier run is given up, its records are read again and may be stored twice", "batch", b.ID.String(),
			"ranges", ranges(b.Cover), "records", b.Records, "err", err)
		_ = a.journal.End(b.ID, record.Replaced)
	}
	a.begun = kept
}

// foreign says what a batch would need that is no longer configured.
func (a *agent) foreign(p *record.Payload) error {
	if !a.sender.Serves(p.Route.Cluster) {
		return errNoCluster
	}
	for _, x := range p.Cover {
		if !slices.ContainsFunc(a.cfg.Inputs, func(in config.Input) bool { return in.Name == x.File.Input }) {
			return errNoInput
		}
	}
	return nil
}

// rebuild sends the begun batches of an earlier run again.
func (a *agent) rebuild() {
	for _, b := range a.begun {
		a.resend(&b.Payload)
	}
	a.begun = nil
}

func (a *agent) resend(p *record.Payload) {
	log := a.log.With("batch", p.ID.String(), "database", p.Route.Database, "table", p.Route.Table,
		"ranges", ranges(p.Cover), "records", p.Records, "attempt", p.Attempt)
	raw, err := a.tail.ReadSpans(p)
	switch {
	case errors.Is(err, tail.ErrSourceGone) && a.resendLeft(p, err):
		return
	case errors.Is(err, tail.ErrSourceGone):
		a.sourceGone(p, err)
		return
	case err != nil:
		log.Error("batch of an earlier run can not be read just now, it is left for the next start", "err", err)
		a.unread = true
		return
	}
	p.ReadAt = time.Now()
	if crc := batcher.Checksum(raw); crc != p.CRC {
		// The begin of the new batch ends the old one, in one entry.
		p.ID, p.Replaces, p.Attempt = record.BatchID(uuid.New()), p.ID, 0
		log.Warn("batch of an earlier run has another body now, it is sent under a new id", "replaced_by", p.ID.String())
	} else {
		log.Warn("outcome of a batch of an earlier run is unknown, it is sent again and may be stored twice")
	}
	p.Inputs(a.ledger.Restored)
	a.batcher.Pack(p, raw)
	a.sender.Put(p)
}

// sourceGone ends a batch of which nothing can be made again.
func (a *agent) sourceGone(p *record.Payload, err error) {
	a.log.Error("outcome of a batch of an earlier run is unknown and its source is gone", "batch", p.ID.String(), "database", p.Route.Database,
		"table", p.Route.Table, "ranges", ranges(p.Cover), "records", p.Records, "attempt", p.Attempt, "err", err)
	_ = a.journal.End(p.ID, record.SourceGone)
	p.Inputs(func(input string, n int) {
		a.ledger.Restored(input, n)
		a.ledger.Dropped(input, ledger.SourceGone, n)
	})
}

// resendLeft sends of a batch what can be made again, if anything can: one file that
// is gone does not take the records of others with it.
func (a *agent) resendLeft(p *record.Payload, gone error) bool {
	left, lost, err := a.tail.Divide(p)
	if err != nil || len(left.Pieces) == 0 || len(lost.Cover) == 0 {
		return false
	}
	left.ID, left.Replaces, left.Attempt = record.BatchID(uuid.New()), p.ID, 0
	lost.ID = record.BatchID(uuid.New())
	raw, err := a.tail.ReadSpans(&left)
	if err != nil {
		return false
	}
	left.ReadAt = time.Now()
	a.batcher.Pack(&left, raw)
	_ = a.journal.Split(p.ID, []*record.Payload{&left, &lost}) // from here on each ends by itself
	a.log.Warn("batch of an earlier run can be made again in part, this is sent under a new id and may be stored twice", "batch", p.ID.String(),
		"replaced_by", left.ID.String(), "database", p.Route.Database, "table", p.Route.Table, "ranges", ranges(left.Cover), "records", left.Records)
	a.sourceGone(&lost, gone)
	left.Inputs(a.ledger.Restored)
	a.sender.Put(&left)
	return true
}

// ranges is where a batch came from, for the log.
func ranges(cover []record.Extent) string {
	const most = 8
	var b strings.Builder
	for i, x := range cover {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(cover)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%v%v", x.File, x.Span)
	}
	return b.String()
}
