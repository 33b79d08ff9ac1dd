package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kusto-agent/batcher"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
)

var errDenied = errors.New("permission denied")

// source reads files for recovery, as tail does.
type source struct{ p *process }

// Shaped implements recovery.Source.
func (s source) Shaped(p *record.Payload) error {
	w := s.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shaped(p)
}

func (w *world) shaped(p *record.Payload) error {
	for _, x := range p.Cover {
		if w.absent[x.File.Input] {
			return recovery.ErrNotConfigured
		}
	}
	for _, x := range p.Cover {
		if sh := w.shape[x.File.Input]; p.Shaping != shaping(sh) || p.Route != route(x.File.Input, sh) {
			return recovery.ErrReshaped
		}
	}
	return nil
}

// look waits as long as the disk of the files takes, and says what is in the way of
// reading all of a payload. It returns with mu held.
func (s source) look(p *record.Payload) error {
	w := s.p.w
	w.mu.Lock()
	slow := false
	for _, x := range p.Cover {
		slow = slow || w.byName[x.File].slow
	}
	if slow {
		w.mu.Unlock()
		time.Sleep(25 * time.Second)
		w.mu.Lock()
	}
	var denied, gone bool
	for _, x := range p.Cover {
		f := w.byName[x.File]
		if w.absent[x.File.Input] {
			return recovery.ErrNotConfigured
		}
		denied, gone = denied || f.denied && !f.gone, gone || f.gone
	}
	switch {
	case denied:
		return errDenied
	case gone:
		return fmt.Errorf("look for it: %w", recovery.ErrGone)
	}
	return nil
}

// Read implements recovery.Source.
func (s source) Read(p *record.Payload) (body []byte, same bool, err error) {
	err = s.look(p)
	w := s.p.w
	defer w.mu.Unlock()
	if err == nil {
		err = w.shaped(p)
	}
	if err != nil {
		return nil, false, err
	}
	for _, x := range p.Pieces {
		body = w.byName[x.File].body(body, x.Span, w.shape[x.File.Input])
	}
	return body, batcher.Checksum(body) == p.CRC, nil
}

// Anew implements recovery.Source: each piece is a part of its own.
func (s source) Anew(p *record.Payload) (*recovery.Reading, error) {
	err := s.look(p)
	w := s.p.w
	defer w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r := &recovery.Reading{}
	for _, x := range p.Pieces {
		sh := w.shape[x.File.Input]
		part := &record.Payload{Route: route(x.File.Input, sh), Shaping: shaping(sh), Records: x.Records, ReadAt: p.ReadAt,
			Pieces: []record.Piece{x}, Cover: []record.Extent{{File: x.File, Span: x.Span, Mark: 1}}}
		part.Body = w.byName[x.File].body(nil, x.Span, sh)
		r.Parts = append(r.Parts, part)
	}
	return r, nil
}

// Divide implements recovery.Source.
func (s source) Divide(p *record.Payload) (left, gone record.Payload, err error) {
	w := s.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	left, gone = *p, *p
	for _, to := range []*record.Payload{&left, &gone} {
		to.Cover, to.Pieces, to.Records = nil, nil, 0
	}
	at := func(f record.File) *record.Payload {
		if w.byName[f].gone {
			return &gone
		}
		return &left
	}
	for _, x := range p.Cover {
		if f := w.byName[x.File]; f.denied && !f.gone {
			return left, gone, errDenied
		}
		to := at(x.File)
		to.Cover = append(to.Cover, x)
	}
	for _, x := range p.Pieces {
		to := at(x.File)
		to.Pieces, to.Records = append(to.Pieces, x), to.Records+x.Records
	}
	return left, gone, nil
}

// reader reads files in a process, in the place of tail and batcher.
type reader struct {
	p       *process
	offsets map[record.File]int64
	ahead   map[record.File][]record.Extent
	turn    int
}

func (r *reader) run(ctx context.Context) {
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-r.p.recovery.Looked():
	case <-timer.C:
	case <-ctx.Done():
	}
	for _, in := range inputs {
		for _, s := range r.p.journal.Files(in) {
			r.offsets[s.File], r.ahead[s.File] = s.Position, s.Ahead
		}
	}
	for ctx.Err() == nil {
		if r.turns() {
			continue
		}
		select {
		case <-r.p.poke:
		case <-ctx.Done():
		}
	}
}

// turns gives each file a turn, and says whether anything was read.
func (r *reader) turns() (any bool) {
	w := r.p.w
	w.mu.Lock()
	files := slices.Clone(w.files)
	w.mu.Unlock()
	for i := range files {
		any = r.read(files, i) || any
	}
	return any
}

// next moves past what is not to be read. Needs world.mu.
func (r *reader) next(f *file) int64 {
	at := r.offsets[f.name]
	for _, x := range r.ahead[f.name] {
		if x.Start <= at && at < x.End {
			at = x.End
		}
	}
	r.offsets[f.name] = at
	return at
}

// take adds some records of a file to a payload. Needs world.mu.
func (r *reader) take(p *record.Payload, f *file, most int) {
	at := r.next(f)
	end, n := at, 0
	limit := f.size
	for _, x := range r.ahead[f.name] {
		if x.Start >= at {
			limit = min(limit, x.Start)
		}
	}
	for _, l := range f.lines {
		if l.span.Start >= at && l.span.End <= limit && n < most && len(p.Body)+int(l.span.End-at) <= maxPayload {
			end, n = l.span.End, n+1
		}
	}
	if n == 0 {
		return
	}
	s := record.Span{Start: at, End: end}
	p.Cover = append(p.Cover, record.Extent{File: f.name, Span: s, Mark: record.Mark(end)})
	p.Pieces = append(p.Pieces, record.Piece{File: f.name, Span: s, Records: n})
	p.Body = f.body(p.Body, s, r.p.w.shape[f.name.Input])
	p.Records += n
	r.offsets[f.name] = end
}

// read makes one payload that begins with a file, and hands it on.
func (r *reader) read(files []*file, i int) bool {
	p, w, f := r.p, r.p.w, files[i]
	in := f.name.Input
	w.mu.Lock()
	to := route(in, w.shape[in])
	sh := w.shape[in]
	w.mu.Unlock()
	if most, _ := p.sender.Credit(to); !p.hasRoom(to, most) {
		return false
	}
	r.turn++
	rnd := w.draw("read", r.turn<<8+p.n)
	d := &record.Payload{Route: to, Shaping: shaping(sh), ReadAt: time.Now(), ID: w.newID(rnd.Uint64())}
	w.mu.Lock()
	if w.absent[in] || f.denied || f.gone || w.shape[in] != sh {
		w.mu.Unlock()
		return false
	}
	r.take(d, f, 1+rnd.IntN(5))
	if j := (i + 1) % len(files); d.Records > 0 && j != i && files[j].name.Input == in && rnd.IntN(3) == 0 && !files[j].denied && !files[j].gone {
		r.take(d, files[j], 1+rnd.IntN(3))
	}
	w.mu.Unlock()
	if d.Records == 0 {
		return false
	}
	d.RawBytes, d.CRC = len(d.Body), batcher.Checksum(d.Body)
	p.ledger.Read(in, d.Records, int64(d.RawBytes))
	p.sealer.Adopt(d)
	p.sender.Put(d)
	return true
}
