package recovery

import (
	"strings"
	"time"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

// What the log says of batches that are, or may be, stored twice.
const (
	sentAgain = "outcome of a batch of an earlier run is unknown, it is sent again and may be stored twice"
	sentAs    = "batch of an earlier run has another body now, it is sent under a new id"
	sentPart  = "batch of an earlier run can be read again only in part, that part is sent under a new id and may be stored twice"
	sentAnew  = "batch of an earlier run was read with other settings than its input has now; its ranges are read again and may be stored twice"
	readAgain = "spooled batch was lost and is read again from its files"
	readAs    = "spooled batch has another body now, it is sent under a new id"
	readPart  = "spooled batch was lost and is read again in part, under a new id"
	readAnew  = "spooled batch was lost and was read with other settings than its input has now; its ranges are read again"
)

// waits is what the log says of a batch that has to wait.
var waits = [...]string{
	OfRun:   "batch of an earlier run cannot be read again now, will retry",
	OfSpool: "spooled batch was lost and cannot be read again now, will retry",
}

var carried = map[Action]string{
	Resend: sentAgain, ResendAs: sentAs, ResendPart: sentPart,
	Restore: readAgain, RestoreAs: readAs, RestorePart: readPart,
}

// carryOn goes on with a batch whose records were read again from their files. A batch of an
// earlier run is sent; a batch that the spool lost is written to the spool again. If act is
// Resend or Restore the payload keeps the id of the batch; otherwise each payload that was read
// gets a new id and names the batch that it replaces. Before that, carryOn writes refused records
// to quarantine, has the journal skip ranges without records, and logs what happens. Records that
// could not be read (found.lost) get an id of their own, under which they are counted as lost.
func (r *Recovery) carryOn(b *batch, act Action, found look) {
	text := carried[act]
	if act == Replace || act == ReplacePart {
		if text = sentAnew; b.kind == OfSpool {
			text = readAnew
		}
	}
	if len(found.refused) > 0 {
		if err := r.Quarantine.Put(found.refused); err != nil { // durable before anything covers them
			r.wait(b, err)
			return
		}
	}
	for _, x := range found.empty {
		_ = r.Ranges.Skip(x.File, x.Span, x.Mark)
	}
	var names []string
	if act != Resend && act != Restore {
		for _, p := range found.parts {
			p.ID, p.Replaces, p.Attempt = r.NewID(), b.ID, 0
			names = append(names, p.ID.String())
		}
	}
	for _, p := range found.parts {
		// What the spool lost keeps its time; the rest counts as read now.
		if p.ReadAt = b.ReadAt; b.kind == OfRun {
			p.ReadAt = time.Now()
		}
	}
	log := r.logOf(b.Payload)
	if len(names) > 0 {
		log = log.With("replaced_by", strings.Join(names, " "))
	}
	log.Warn(text)
	for _, p := range found.parts {
		raw := p.Body
		p.Body = nil
		r.Packer.Fill(p, raw)
	}
	if found.lost != nil {
		found.lost.ID, found.lost.Replaces, found.lost.Attempt = r.NewID(), record.BatchID{}, b.Attempt
	}
	if b.kind == OfRun {
		r.resend(b, found)
	} else {
		r.restore(b, found)
	}
}

// resend hands the payloads that were read of a batch of an earlier run to the sender. In the journal
// the batch ends, or is split into them, unless one payload carries its id on. Records whose source is
// gone are counted as dropped.
func (r *Recovery) resend(b *batch, found look) {
	children := found.parts
	if found.lost != nil {
		children = append(children[:len(children):len(children)], found.lost)
	}
	switch {
	case len(children) == 0:
		how := record.Replaced // none of its records is to be sent
		if len(found.refused) > 0 {
			how = record.Quarantined
		}
		_ = r.Journal.End(b.ID, how)
	case len(children) > 1, found.lost != nil:
		_ = r.Journal.Split(b.ID, children) // from here on each ends by itself
	} // else one payload goes on: the sender writes its begin, which ends a batch that it replaces
	r.account(found)
	if found.lost != nil {
		r.logOf(found.lost).Error(unknownGone, "err", found.err)
		_ = r.Journal.End(found.lost.ID, record.SourceGone)
		r.drop(found.lost)
	}
	for _, p := range found.parts {
		r.Packer.Adopt(p)
		r.Sender.Put(p)
	}
}

const (
	unknownGone = "outcome of a batch of an earlier run is unknown and its source is gone: records that the service did not store are lost"
	spooledGone = "records were in the spool and are lost: their source is gone too"
)

// account adds the records that were read of a begun batch to the counts: those to be sent, and those
// that went to quarantine.
func (r *Recovery) account(found look) {
	for _, p := range found.parts {
		p.Inputs(r.Books.Restored)
	}
	for _, x := range found.refused {
		r.Books.Restored(x.File.Input, 1)
		r.Books.Quarantined(x.Lot(), x.Reason)
	}
}

// drop counts the records of a begun batch as dropped, because their source is gone.
func (r *Recovery) drop(p *record.Payload) {
	p.Lots(func(lot record.Lot) {
		r.Books.Restored(lot.Input, lot.Records)
		r.Books.Dropped(lot, ledger.SourceGone)
	})
}

// endGone ends a batch whose source is gone: it logs the loss with the reason why, writes the end to
// the journal and counts the records as dropped.
func (r *Recovery) endGone(b *batch, why error) {
	if b.kind == OfRun {
		r.logOf(b.Payload).Error(unknownGone, "err", why)
		_ = r.Journal.End(b.ID, record.SourceGone)
		r.drop(b.Payload)
		return
	}
	r.logOf(b.Payload).Error(spooledGone, "err", why)
	r.end(b.ID, record.SourceGone)
	b.Lots(r.dropSpooled)
}

// dropSpooled counts records that were in the spool as dropped because their source is gone.
func (r *Recovery) dropSpooled(lot record.Lot) {
	r.Books.Unspooled(lot.Input, lot.Records)
	r.Books.Dropped(lot, ledger.SourceGone)
}

// restore puts what was read of a payload that was missing or damaged in the spool back
// there, or gives it to the sender if the spool does not take it. If it goes on under new ids, the
// payload itself ends in the journal when these are all in the spool or have ended.
func (r *Recovery) restore(b *batch, found look) {
	r.balance(b, found)
	same := len(found.parts) == 1 && found.parts[0].ID == b.ID
	if !same {
		// If the process is killed before the end, some records are sent twice, and the log names them.
		_ = r.Frames.Replay(b.ID, b.Attempt+1)
	}
	var rest []*record.Payload
	for _, p := range found.parts {
		if !r.shelve(p, same, r.shelvedBefore(b.ID)) {
			rest = append(rest, p)
		}
	}
	if found.lost != nil {
		r.logOf(found.lost).Error(spooledGone, "err", found.err)
		_ = r.Journal.Begin(found.lost) // its ranges are safe; the two entries say what became of them
		_ = r.Journal.End(found.lost.ID, record.SourceGone)
		found.lost.Lots(r.dropSpooled)
	}
	switch {
	case len(rest) == 0 && same:
		r.letGo(b.ID)
	case len(rest) == 0:
		r.end(b.ID, record.Replaced)
	default:
		r.owe(b.ID, rest)
	}
	for _, p := range rest {
		p.Inputs(r.Books.Unspooled)
		r.Packer.Adopt(p)
		r.Sender.Put(p)
	}
}

// shelvedBefore reports whether recovery has put this payload into the spool before, where
// it could not be read again.
func (r *Recovery) shelvedBefore(id record.BatchID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copies[id] > 0
}

// mostReady is how many bodies are kept for frames that the spool will not be able to read.
const mostReady = 4

// shelve puts a payload into the spool and returns true, or false if the spool did not take it. known
// says that the journal knows the payload already; if not, shelve records its begin and its end there.
// keep has a copy of the body kept in memory, for a disk that can be written and not read.
func (r *Recovery) shelve(p *record.Payload, known, keep bool) bool {
	if !known {
		_ = r.Journal.Begin(p)
	}
	if keep {
		own := *p
		r.Packer.Reserve(true)
		r.mu.Lock()
		r.ready[p.ID] = &own
		r.mu.Unlock()
	}
	if r.Spool.Put(p) != nil { // the spool says why
		r.takeReady(p.ID)
		return false
	}
	r.mu.Lock()
	r.copies[p.ID]++
	r.mu.Unlock()
	if !known {
		_ = r.Journal.End(p.ID, record.Spooled)
	}
	p.Body = nil
	r.Sender.Expect(p.Route)
	return true
}

// takeReady returns the payload whose body is kept in memory under an id, for a spool that cannot read
// it; nil if there is none. It gives the memory back that is reserved for the body.
func (r *Recovery) takeReady(id record.BatchID) *record.Payload {
	r.mu.Lock()
	p := r.ready[id]
	delete(r.ready, id)
	r.mu.Unlock()
	if p != nil {
		r.Packer.Unreserve()
	}
	return p
}

// balance corrects the counts, of the spool and in all, if other records were read than had been
// spooled: the file or the settings have changed. Refused records leave the spool too.
func (r *Recovery) balance(b *batch, found look) {
	more := map[string]int{}
	add := func(input string, n int) { more[input] += n }
	for _, p := range found.parts {
		p.Inputs(add)
	}
	if found.lost != nil {
		found.lost.Inputs(add)
	}
	for _, x := range found.refused {
		more[x.File.Input]++
	}
	b.Inputs(func(input string, n int) { more[input] -= n })
	for input, n := range more {
		switch {
		case n > 0: // more records than were spooled
			r.Books.Restored(input, n)
			r.Books.Spooled(input, n)
		case n < 0 && found.settings == Reshaped: // by the present settings they belong to other records, or to none
			r.Books.Unspooled(input, -n)
			r.Books.Joined(input, -n)
		case n < 0: // the file has fewer records than it had
			r.dropSpooled(record.Lot{Input: input, Route: b.Route, Records: -n, Bytes: b.Share(-n)})
		}
	}
	for _, x := range found.refused {
		r.Books.Unspooled(x.File.Input, 1)
		r.Books.Quarantined(x.Lot(), x.Reason)
	}
}

// owe remembers that the payload of the spool with this id ends only when all payloads in rest, which
// are sent from memory in its place, have ended.
func (r *Recovery) owe(id record.BatchID, rest []*record.Payload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &debt{id: id, left: len(rest)}
	for _, p := range rest {
		r.sent[p.ID] = d
	}
}

// Watched returns the journal for the sender to use. It passes all calls on to j. It also ends a payload
// of the spool in the journal when all payloads that are sent in its place have ended.
func (r *Recovery) Watched(j SendJournal) SendJournal { return watched{j, r} }

// SendJournal is what the sender tells the journal.
type SendJournal interface {
	Journal
	Replay(id record.BatchID, attempt int) error
	Answered(id record.BatchID, attempt int) error
	Unknown(id record.BatchID, attempt int) error
}

type watched struct {
	SendJournal
	r *Recovery
}

// Begin writes the begin of a batch. For a payload that is sent from memory in place of one of the
// spool with the same id, it first writes a replay: at the next start a begin counts for nothing if
// its ranges are safe, and a replay shows that the payload has not ended.
func (w watched) Begin(p *record.Payload) error {
	w.r.mu.Lock()
	d := w.r.sent[p.ID]
	w.r.mu.Unlock()
	if d != nil && d.id == p.ID {
		_ = w.r.Frames.Replay(p.ID, p.Attempt)
	}
	return w.SendJournal.Begin(p)
}

// Replay records an attempt of a payload from the spool. The spool has read its body, so a copy that
// recovery kept in memory is let go.
func (w watched) Replay(id record.BatchID, attempt int) error {
	w.r.takeReady(id)
	return w.SendJournal.Replay(id, attempt)
}

// End writes the end of a batch. If the batch was the last of those sent in place of a payload of the
// spool, the end of that payload is written first; if the batch went to the spool itself, it is
// written afterwards. The package comment, Order of writes, says why.
func (w watched) End(id record.BatchID, how record.Outcome) error {
	if how == record.Spooled {
		err := w.SendJournal.End(id, how)
		w.r.settle(id, how)
		return err
	}
	w.r.settle(id, how)
	return w.SendJournal.End(id, how)
}

// Split records that the children take over the ranges of the parent. If the parent was sent in place
// of a payload of the spool, that payload now ends when all the children have ended.
func (w watched) Split(parent record.BatchID, children []*record.Payload) error {
	w.r.mu.Lock()
	d := w.r.sent[parent]
	if d != nil {
		for _, c := range children {
			w.r.sent[c.ID] = d
		}
		d.left += len(children) - 1
		delete(w.r.sent, parent)
	}
	w.r.mu.Unlock()
	return w.SendJournal.Split(parent, children)
}

// settle is called when a batch ends with the outcome how. If the batch was the last one sent in place
// of a payload of the spool, that payload ends in the journal too. If the batch has the id of that
// payload and went to the spool again, it goes on there.
func (r *Recovery) settle(id record.BatchID, how record.Outcome) {
	r.mu.Lock()
	d := r.sent[id]
	if d == nil {
		r.mu.Unlock()
		return
	}
	delete(r.sent, id)
	d.left--
	over := d.left == 0
	r.mu.Unlock()
	if how != record.Spooled {
		_ = r.Journal.EndReplay(id, how) // a copy of it may be in the spool at the next start
	}
	switch {
	case !over:
	case d.id != id:
		r.end(d.id, record.Replaced)
	default: // this batch is the payload: it ended above, or is in the spool again
		r.mu.Lock()
		delete(r.held, id)
		if how == record.Spooled {
			r.copies[id]++
		}
		r.mu.Unlock()
	}
}
