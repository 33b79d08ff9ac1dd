package pipeline

import (
	"errors"
	"log/slog"
	"slices"

	"kusto-agent/batcher"
	"kusto-agent/internal/config"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
	"kusto-agent/tail"
)

// Why a payload cannot be made once more. The texts are for people.
var (
	ErrGone          = errors.New("its file is gone, or holds something else now")
	ErrReshaped      = errors.New("its input has another table, or other fields, parsing or rules than then")
	ErrNotConfigured = errors.New("its input is not in the configuration any more")
)

// Again makes payloads that were sent before once more from their files. It sends nothing,
// writes nothing and disturbs no agent.
type Again struct {
	tailer  *tail.Tailer
	batcher *batcher.Batcher
}

// NewAgain returns an Again, which makes payloads that were sent before once more from their
// files. past is what the journal knows of the files, by which they are found; nil: it knows of
// none.
func NewAgain(cfg *config.Config, past *journal.Past) (*Again, error) {
	b := batcher.New(batcher.Options{Routes: cfg.Routes(), Next: nowhere{}})
	t, err := onlooker(cfg.Tails(), past, cfg.Folders(), b, noQuarantine{}, ledger.New())
	if err != nil {
		return nil, err
	}
	return &Again{t, b}, nil
}

// onlooker returns a tailer of inputs that continues behind past, and changes neither that nor
// anything else. avoid are folders that it does not read.
func onlooker(inputs []tail.Input, past *journal.Past, avoid []string, to *batcher.Batcher, q tail.Quarantine, books *ledger.Ledger) (*tail.Tailer, error) {
	return tail.New(tail.Options{
		Inputs: inputs, Positions: readOnly{past}, History: readOnly{past}, Sink: Sink{to}, Quarantine: q, Books: books, Metrics: quiet{}, Contents: quiet{},
		Logger: slog.New(slog.DiscardHandler), OpenFiles: 64, Once: true, Avoid: avoid,
	})
}

// Shaped reports whether an input would send what it reads to this route in this shape.
func (a *Again) Shaped(input string, to record.Route, shaping uint64) bool {
	return a.tailer.Shaped(&record.Payload{Route: to, Shaping: shaping, Cover: []record.Extent{{File: record.File{Input: input}}}}) == nil
}

// Read reads the ranges of p from their files, sets p.Body, uncompressed, and returns the
// records; records that were made of the same lines come as one. If p has a CRC and the body
// differs, the error is ErrGone. Other errors are ErrReshaped, ErrNotConfigured and those of the
// disk. The caller owns p.Body.
func (a *Again) Read(p *record.Payload) ([]batcher.Record, error) {
	body, err := a.tailer.ReadSpans(p)
	switch {
	case err != nil:
		return nil, ofTail(err)
	case p.CRC != 0 && batcher.Checksum(body) != p.CRC:
		return nil, ErrGone
	}
	p.Body, p.Gzip, p.RawBytes, p.CRC = body, false, len(body), batcher.Checksum(body)
	return batcher.Records(p)
}

// Left returns the part of p whose files still exist, without a CRC, since that was for the whole
// body. The errors are those of the disk.
func (a *Again) Left(p *record.Payload) (*record.Payload, error) {
	left, _, err := a.tailer.Divide(p)
	left.CRC = 0
	return &left, ofTail(err)
}

// Pack compresses the body that Read gave, where its route wants that.
func (a *Again) Pack(p *record.Payload) { a.batcher.Fill(p, slices.Clone(p.Body)) }

// ofTail translates an error of package tail to the one of this package that means the same; it
// returns any other error as it is.
func ofTail(err error) error {
	for is, as := range map[error]error{tail.ErrSourceGone: ErrGone, tail.ErrReshaped: ErrReshaped, tail.ErrNotConfigured: ErrNotConfigured} {
		if errors.Is(err, is) {
			return as
		}
	}
	return err
}

// nowhere takes nothing.
type nowhere struct{}

func (nowhere) Credit(record.Route) (int, bool) { return 0, false }
func (nowhere) Put(*record.Payload)             {}
func (nowhere) Largest(record.Route) int        { return 0 }

// noQuarantine takes nothing either: what was sent was no record for it.
type noQuarantine struct{}

func (noQuarantine) Put([]record.Rejected) error {
	return errors.New("nothing is put into quarantine here")
}
