package agent

import (
	"iter"

	"kusto-agent/batcher"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
	"kusto-agent/tail"
)

// Where rooms meet that do not know each other: each type here turns one
// room into the interface of another.

// positions lets tail ask the journal where to go on.
type positions struct{ *journal.Journal }

func (p positions) Files(input string) iter.Seq[tail.State] {
	return pipeline.States(p.Journal.EachFile(input))
}

// sealer lets the sender take payloads apart, each record with the path its
// file had when first seen.
type sealer struct{ *Agent }

func (s sealer) Split(p *record.Payload) ([]*record.Payload, error) { return s.batcher.Split(p) }
func (s sealer) Adopt(p *record.Payload)                            { s.batcher.Adopt(p) }
func (s sealer) Reserve(must bool) bool                             { return s.batcher.Reserve(must) }
func (s sealer) Unreserve()                                         { s.batcher.Unreserve() }
func (s sealer) Release(p *record.Payload)                          { s.batcher.Release(p) }

// Records returns the records of a refused payload as quarantine keeps them: each with its file,
// its offset and, as far as the file still has them, its original bytes; otherwise the bytes that
// were sent.
func (s sealer) Records(p *record.Payload) ([]record.Rejected, error) {
	records, err := batcher.Records(p)
	if err != nil {
		return nil, err
	}
	all := make([]record.Rejected, len(records))
	for i, r := range records {
		st, _ := s.journal.State(r.File)
		info := st.Info.Info()
		all[i] = record.Rejected{File: r.File, Path: info.First, Dated: info.Dated, Offset: r.Offset, Length: r.Length, Data: r.Data, Header: r.Header}
	}
	if err := s.tail.Restore(p, all); err != nil {
		s.Log.Warn("source bytes of refused records could not be read again; quarantine keeps the records as they were sent, after parsing and rules", "batch", p.ID.String(), "err", err)
	}
	return all, nil
}
