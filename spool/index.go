package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"time"
	"unique"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/internal/wire"
)

// A segment that is not written any more has an index beside it, a file of its
// name with another suffix:
//
//	magic u32 | version u16 | zero u16 | seq u64 | agent 16 bytes | place u64 |
//	    end i64 | base i64 | next record id u64 | payloads u32 | tables size u32 |
//	    marked payloads u32 | crc32c u32
//	token 24 bytes | crc32c u32 | zero u32
//	tables | crc32c u32
//	slots by route, in blocks of 64: slots | crc32c u32
//
// All numbers are little-endian. The tables hold the inputs, the routes with how
// many slots each has and what these add up to, and the mixes, which are the counts
// of payloads with records of more than one input. The slots of a route are in their
// order. The token is what Options.Vouch returned: zero at first, and written into its
// place later.

const (
	suffixOfIndex = ".idx"     // behind the name of the segment
	indexMagic    = 0x58495053 // "SPIX"
	indexVersion  = 2          // another one is not read: the segment is
	indexToken    = 80         // where the token is
	indexHeader   = indexToken + 32
	slotSize      = 40
	blockSlots    = 64
	blockSize     = blockSlots*slotSize + 4
	unit          = 8                  // of the places and sizes of frames
	tick          = time.Duration(1e8) // of the times in an index
)

// errIndex marks an index that cannot be used. Nothing is lost with it: the
// segment says the same.
var errIndex = errors.New("index of spool segment not usable")

// slot is what an index knows of a payload.
type slot struct {
	id      record.BatchID
	ord     uint32 // in its segment
	at      uint32 // its frame, in units
	size    uint32 // of the frame, in units, and flags
	when    uint32 // when it came, in ticks since the base of its segment
	records uint32
	input   uint32 // where in segment.inputs, or with mixed in segment.mixes
}

const (
	unsound = 1 << 31 // flag of slot.size: the body was found damaged at a start
	part    = 1 << 30 // flag of slot.size: it names another payload that it replaces
	marks   = unsound | part
	mixed   = 1 << 31 // flag of slot.input
)

func (e *slot) offset() int64   { return int64(e.at) * unit }
func (e *slot) length() int64   { return int64(e.size&^marks) * unit }
func (e *slot) isUnsound() bool { return e.size&unsound != 0 }
func (e *slot) isMarked() bool  { return e.size&marks != 0 }

// put sets offset and size of the payload's frame in its segment.
func (e *slot) put(at, size int64) {
	e.at, e.size = uint32(at/unit), e.size&marks|uint32(size/unit)
}

// counts calls fn with each input of the payload with index entry e, and the number of its records.
func (g *segment) counts(e *slot, fn func(input string, records int)) {
	if e.input&mixed == 0 {
		fn(g.inputs[e.input], int(e.records))
		return
	}
	for _, c := range g.mixes[e.input&^mixed] {
		fn(c.input, c.records)
	}
}

// when returns when the payload of an index entry came to the spool, in nanoseconds since 1970.
func (g *segment) when(e *slot) int64 { return g.base + int64(e.when)*int64(tick) }

// newSlot returns the index entry of a payload that came to the spool at spooled, in nanoseconds
// since 1970. The caller adds the place and the size of its frame with put. The entry has the number
// of its input in the table of the segment. A payload with records of several inputs gets an entry
// in g.mixes instead, to which e.input then refers.
func (g *segment) newSlot(p *record.Payload, spooled int64) slot {
	if g.n == 0 {
		g.base = spooled
	}
	e := slot{id: p.ID, when: uint32(min(max(spooled-g.base, 0)/int64(tick), 1<<32-1)), records: uint32(p.Records)}
	if p.Replaces != (record.BatchID{}) {
		e.size = part // a flag beside the size
	}
	var by []count
	p.Inputs(func(input string, n int) {
		for i := range by {
			if by[i].input == input {
				by[i].records += n
				return
			}
		}
		by = append(by, count{unique.Make(input).Value(), n})
	})
	if len(by) == 1 && by[0].records == p.Records {
		e.input = g.input(by[0].input)
	} else {
		e.input = mixed | uint32(len(g.mixes))
		g.mixes = append(g.mixes, by)
	}
	return e
}

// input returns the number of an input in the table of the segment, which it adds if it is
// new.
func (g *segment) input(name string) uint32 { return place(&g.inputs, name) }

// place returns the position of a name in a table, to which it adds the name if it is new.
func place(table *[]string, name string) uint32 {
	i := slices.Index(*table, name)
	if i < 0 {
		i = len(*table)
		*table = append(*table, name)
	}
	return uint32(i)
}

// indexCost returns how many bytes a payload adds to an index, at most: its entry, and the names of
// its route and its inputs, which it may be the first to have.
func indexCost(p *record.Payload) (n int64) {
	// 40 and 12 are the most that lengths and numbers beside the names take.
	n = slotSize + 1 + 40 + int64(len(p.Route.Cluster)+len(p.Route.Database)+len(p.Route.Table)+len(p.Route.Format)+len(p.Route.Mapping))
	inputs, names := 0, int64(0)
	p.Inputs(func(input string, _ int) { inputs, names = inputs+1, names+int64(len(input))+12 })
	if inputs > 1 { // they are in the mixes too
		names *= 2
	}
	n += names
	return n
}

// encodeIndex returns the index of a segment whose slots are all in memory. end is the size of the
// segment, record the next record id. ahead is by how much the wall clock is ahead of the spool's
// clock: times on disk are those of the wall clock.
func encodeIndex(g *segment, agent [16]byte, end int64, record uint64, ahead time.Duration) (b []byte) {
	routes := &wire.Writer{}
	routes.Uint(uint64(len(g.order)))
	inputs := slices.Clone(g.inputs) // and those that are in mixes alone
	marked := 0
	for _, sh := range g.order {
		r := sh.to.Value()
		for _, s := range []string{r.Cluster, r.Database, r.Table, string(r.Format), r.Mapping} {
			routes.String(s)
		}
		routes.Uint(uint64(len(sh.slots)))
		marked += g.writeSums(routes, &inputs, sh.slots)
	}
	t := &wire.Writer{}
	t.Uint(uint64(len(inputs)))
	for _, in := range inputs {
		t.String(in)
	}
	t.B = append(t.B, routes.B...)
	t.Uint(uint64(len(g.mixes)))
	for _, m := range g.mixes {
		t.Uint(uint64(len(m)))
		for _, c := range m {
			t.String(c.input)
			t.Int(int64(c.records))
		}
	}
	n := g.n
	le := binary.LittleEndian
	b, _ = binary.Append(make([]byte, 0, indexHeader+len(t.B)+4+n*slotSize+(n/blockSlots+1)*4), le, &indexHead{
		Magic: indexMagic, Version: indexVersion, Seq: g.seq, Agent: agent, Place: g.place, End: end, Base: g.base + int64(ahead),
		Record: record, Payloads: uint32(n), Tables: uint32(len(t.B)), Marked: uint32(marked),
	})
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = append(b, encodeToken(g.seq, [24]byte{})...)
	b = append(b, t.B...)
	b = le.AppendUint32(b, crc32.Checksum(t.B, castagnoli))
	i, block := 0, len(b)
	for _, sh := range g.order {
		for j := range sh.slots {
			b = appendSlot(b, &sh.slots[j])
			if i++; i%blockSlots == 0 || i == n {
				b = le.AppendUint32(b, blockSum(b[block:], g.seq, (i-1)/blockSlots))
				block = len(b)
			}
		}
	}
	return b
}

// writeSums writes the totals of the slots (index entries) of one route to t: bytes, the oldest time,
// and records by input. It adds inputs that are new to inputs. It returns how many slots are marked
// (the body is damaged, or the payload replaces another).
func (g *segment) writeSums(t *wire.Writer, inputs *[]string, slots []slot) (marked int) {
	bytes, oldest := int64(0), uint32(1<<32-1)
	var total share
	for i := range slots {
		e := &slots[i]
		bytes += e.length()
		oldest = min(oldest, e.when)
		g.counts(e, total.sum)
		if e.isMarked() {
			marked++
		}
	}
	t.Int(bytes)
	t.Uint(uint64(oldest))
	t.Uint(uint64(len(total.sums)))
	for _, c := range total.sums {
		t.Uint(uint64(place(inputs, c.input)))
		t.Int(int64(c.records))
	}
	return marked
}

// encodeToken returns the token with its checksum, in the form in which it is written to an index.
func encodeToken(seq uint64, token [24]byte) []byte {
	b := binary.LittleEndian.AppendUint32(token[:], blockSum(token[:], seq, -1))
	return append(b, 0, 0, 0, 0)
}

// setToken writes a token into the existing index of segment number seq and syncs it. If the machine
// stops during the write, the index has no token afterwards: the checksum is then wrong.
func setToken(fsys durable.FS, path string, seq uint64, token [24]byte) error {
	f, err := fsys.Open(path, os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(encodeToken(seq, token), indexToken)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// decodeToken returns the token of the index of segment number seq; zero if the index has none or
// the checksum is wrong.
func decodeToken(seq uint64, b []byte) (token [24]byte) {
	if copy(token[:], b); binary.LittleEndian.Uint32(b[24:]) != blockSum(b[:24], seq, -1) {
		return [24]byte{}
	}
	return token
}

// blockSum returns the checksum of a block of slots. It covers the segment's number and
// the position of the block, so that a block at another place does not pass. The token has the
// position -1.
func blockSum(b []byte, seq uint64, block int) uint32 {
	var where [16]byte
	binary.LittleEndian.PutUint64(where[:8], seq)
	binary.LittleEndian.PutUint64(where[8:], uint64(block))
	return crc32.Update(crc32.Checksum(where[:], castagnoli), castagnoli, b)
}

// appendSlot appends an index entry to b, in 40 bytes; readSlot is the reverse.
func appendSlot(b []byte, e *slot) []byte {
	le := binary.LittleEndian
	b = append(b, e.id[:]...)
	b = le.AppendUint32(b, e.ord)
	b = le.AppendUint32(b, e.at)
	b = le.AppendUint32(b, e.size)
	b = le.AppendUint32(b, e.when)
	b = le.AppendUint32(b, e.records)
	return le.AppendUint32(b, e.input)
}

// readSlot decodes an index entry that appendSlot wrote.
func readSlot(b []byte) (e slot) {
	le := binary.LittleEndian
	copy(e.id[:], b)
	e.ord, e.at, e.size = le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[24:])
	e.when, e.records, e.input = le.Uint32(b[28:]), le.Uint32(b[32:]), le.Uint32(b[36:])
	return e
}

// indexHead is the beginning of an index, up to its checksum.
type indexHead struct {
	Magic                    uint32
	Version, Zero            uint16
	Seq                      uint64
	Agent                    [16]byte
	Place                    uint64
	End                      int64  // of the content of the segment
	Base                     int64  // see segment.base
	Record                   uint64 // id of the record behind its last
	Payloads, Tables, Marked uint32 // Marked: payloads with one of marks
}

// index is an open index file.
type index struct {
	indexHead
	f      durable.File
	blocks int64 // where the slots begin
	n      int   // slots
	bytes  int64 // of the file
}

// openIndex opens an index, checks its header and fills in g, which is empty but for its name and
// number, from its tables. The entries of the payloads are read later. The caller closes the index.
// The error is errIndex if the index cannot be used, or one of the disk.
func openIndex(fsys durable.FS, path string, g *segment) (x *index, err error) {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	var h [indexHeader]byte
	if err := readFull(f, h[:], 0); err != nil {
		return nil, err
	}
	x = &index{f: f, bytes: size}
	le := binary.LittleEndian
	_, _ = binary.Decode(h[:], le, &x.indexHead) // never fails: h is long enough
	tables := int64(x.Tables)
	x.n, x.blocks = int(x.Payloads), indexHeader+tables+4
	if x.Magic != indexMagic || x.Version != indexVersion || le.Uint32(h[indexToken-4:]) != crc32.Checksum(h[:indexToken-4], castagnoli) ||
		x.Seq != g.seq || size != x.blocks+indexBytes(x.n) {
		return nil, fmt.Errorf("header of %q: %w", path, errIndex)
	}
	t := make([]byte, tables+4)
	if err := readFull(f, t, indexHeader); err != nil {
		return nil, err
	}
	g.place, g.base, g.n = x.Place, x.Base, x.n
	if crc32.Checksum(t[:tables], castagnoli) != le.Uint32(t[tables:]) || !g.readTables(t[:tables]) {
		return nil, fmt.Errorf("tables of %q: %w", path, errIndex)
	}
	g.token = decodeToken(g.seq, h[indexToken:])
	return x, nil
}

// indexBytes returns how many bytes n slots take in an index, with the checksums of their blocks.
func indexBytes(n int) int64 { return int64(n)*slotSize + int64((n+blockSlots-1)/blockSlots)*4 }

// readTables fills in the routes, inputs, mixes and totals of a segment from b, as if none of its
// payloads had ended. It returns false if b does not hold valid tables. The arguments of Count are
// the fewest bytes that one element takes.
func (g *segment) readTables(b []byte) bool {
	r := &wire.Reader{B: b}
	for range r.Count(1) {
		g.inputs = append(g.inputs, unique.Make(r.String()).Value())
	}
	for range r.Count(9) {
		to := record.Route{Cluster: r.String(), Database: r.String(), Table: r.String(), Format: record.Format(r.String()), Mapping: r.String()}
		sh := &share{g: g, to: unique.Make(to), first: g.live, n: r.Small(uint64(g.n))}
		sh.live, sh.waiting = sh.n, sh.n
		g.live += sh.n
		g.bytes += r.Int()
		sh.oldest = g.when(&slot{when: uint32(r.Small(1<<32 - 1))})
		for range r.Count(2) {
			in, records := r.Small(1<<31), int(r.Int())
			if in >= len(g.inputs) {
				return false
			}
			sh.sum(g.inputs[in], records)
		}
		g.shares[sh.to] = sh
		g.order = append(g.order, sh)
	}
	for range r.Count(1) {
		var m []count
		for range r.Count(2) {
			m = append(m, count{unique.Make(r.String()).Value(), int(r.Int())})
		}
		g.mixes = append(g.mixes, m)
	}
	return !r.Bad && g.live == g.n && len(g.order) == len(g.shares)
}

// fits reports whether an index entry is valid: its input and its position exist in the tables of
// the segment, and it has an id.
func (g *segment) fits(e *slot) bool {
	known := int(e.input) < len(g.inputs)
	if e.input&mixed != 0 {
		known = int(e.input&^mixed) < len(g.mixes)
	}
	return known && int(e.ord) < g.n && e.id != record.BatchID{}
}

// read calls fn with n slots (index entries) of segment g, beginning with slot number first, and
// checks the blocks in which they lie. The slot that fn gets is valid only during the call. An error
// is errIndex or that of the disk.
func (x *index) read(g *segment, first, n int, fn func(e *slot)) error {
	const most = 256 // blocks at a time
	var buf []byte
	var e slot // one for all: fn keeps none
	for n > 0 {
		from := first / blockSlots
		blocks := min((first+n+blockSlots-1)/blockSlots-from, most)
		last := min((from+blocks)*blockSlots, x.n) // behind the last slot that is read
		size := indexBytes(last) - indexBytes(from*blockSlots)
		if int64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		b := buf[:size]
		if err := readFull(x.f, b, x.blocks+indexBytes(from*blockSlots)); err != nil {
			return err
		}
		for block := from; len(b) > 0; block++ {
			k := min(blockSlots, last-block*blockSlots)
			part := b[:k*slotSize]
			if blockSum(part, x.Seq, block) != binary.LittleEndian.Uint32(b[len(part):]) {
				return fmt.Errorf("block %d: %w", block, errIndex)
			}
			for i := max(first-block*blockSlots, 0); i < k && n > 0; i, first, n = i+1, first+1, n-1 {
				e = readSlot(part[i*slotSize:])
				if !g.fits(&e) {
					return fmt.Errorf("slot %d: %w", first, errIndex)
				}
				fn(&e)
			}
			b = b[len(part)+4:]
		}
	}
	return nil
}

// readFull fills b from the offset off of f. If the file ends before, the error is errIndex.
func readFull(f durable.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%d bytes at %d: %w", len(b), off, errIndex)
	}
	return err
}

// writeIndex writes the index of a segment that is not written any more, and drops its slots (index
// entries) from memory, except those that Next gives out soon. end is where the content of the
// segment ends, record the id of the next record. After an error the slots stay in memory, and the
// next start reads the whole segment.
func (s *Spool) writeIndex(g *segment, end int64, record uint64) error {
	path := s.path(g.name + suffixOfIndex)
	_, ahead := s.age.look()
	b := encodeIndex(g, s.w.agent, end, record, ahead)
	err := s.w.disk(func() error {
		return durable.WriteAtomic(s.o.FS, path, func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	})
	if err != nil {
		_ = s.w.disk(func() error { return errors.Join(s.o.FS.Remove(path+durable.TempSuffix), s.o.FS.Remove(path)) })
		return err
	}
	h := newSegment(g.name, g.seq)
	x, err := openIndex(s.o.FS, path, h)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := 0
	for _, sh := range g.order {
		sh.first = first
		first += sh.n
		if sh.peek() == nil || g != s.segments[0] { // the oldest is being given out
			sh.slots, sh.from = nil, 0
		}
	}
	g.index, g.aside = x, x.bytes
	return nil
}
