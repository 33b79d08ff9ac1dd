package recovery

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

// reconcile is a start that finds this.
func (w *world) reconcile(f Found, lacks bool, missing ...*record.Payload) {
	w.t.Helper()
	f.Report = func() (bool, []*record.Payload) { return lacks, missing }
	if err := w.r.Reconcile(f); err != nil {
		w.t.Fatal(err)
	}
}

func tried(letter byte, attempt int) *record.Payload {
	p := payload(letter, 2)
	p.Attempt = attempt
	return p
}

var (
	file1 = record.File{Input: "in", ID: 1}
	file2 = record.File{Input: "in", ID: 2}
)

// TestFrames: what a start does about one frame, for each kind of row of the table.
func TestFrames(t *testing.T) {
	one := func(name string, vouched bool, found Found, covered, sound bool, kept bool, told ...string) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.vouched = vouched
			w.covers[id('x')] = covered
			w.frames = []frame{{payload('x', 2), sound}}
			w.reconcile(found, false)
			w.want(told...)
			if (len(w.frames) == 1) != kept {
				t.Errorf("%d frames are kept", len(w.frames))
			}
			if kept {
				w.wantBooks("restored 2 spooled 2")
			} else {
				w.wantBooks("")
			}
			named := 0
			lost := !covered && found.Begun == nil && found.Ended == nil // with a power cut goes what was sent of it too
			if kept && (lost || found.Begun != nil && found.Begun[0].Attempt > 0 || found.Replays != nil && found.Answered == nil && !found.Clean) {
				named = 1
			}
			w.wantLog(sentAgain, named)
		})
	}
	f := func(name string, found Found, covered, sound bool, kept bool, told ...string) {
		one(name, false, found, covered, sound, kept, told...)
		if covered || found.Begun != nil || found.Ended != nil { // the journal knows of it
			one(name+", vouched for", true, found, covered, sound, kept, told...)
		}
	}
	begun := func(attempt int) []*record.Payload { return []*record.Payload{tried('x', attempt)} }
	ended := func(how record.Outcome) map[record.BatchID]record.Outcome {
		return map[record.BatchID]record.Outcome{id('x'): how}
	}
	f("safe", Found{}, true, true, true)
	f("safe and damaged", Found{}, true, false, true)
	f("tried from the spool, killed", Found{Replays: map[record.BatchID]int{id('x'): 3}}, true, true, true, "attempted x 3")
	f("tried from the spool, answered, killed", Found{Replays: map[record.BatchID]int{id('x'): 3}, Answered: map[record.BatchID]bool{id('x'): true}}, true, true, true, "attempted x 3")
	f("tried from the spool, stopped", Found{Replays: map[record.BatchID]int{id('x'): 3}, Clean: true}, true, true, true, "attempted x 3")
	f("a power cut took its begin", Found{}, false, true, true, "begin x", "end x spooled")
	f("cut short", Found{}, false, false, false, "end frame x replaced")
	f("begun", Found{Begun: begun(0)}, false, true, true, "end x spooled")
	f("begun and tried: named", Found{Begun: begun(2)}, false, true, true, "end x spooled", "attempted x 2")
	f("begun, its writing cut short", Found{Begun: begun(1)}, false, false, false, "end frame x replaced")
	f("accepted from the spool", Found{Ended: ended(record.Accepted)}, true, true, false)
	f("came back after a Put that failed, accepted", Found{Ended: ended(record.Replaced)}, true, true, false)
	f("came back, and its end is told as that of the frame alone", Found{Ended: ended(record.Accepted), Begun: begun(1)}, false, true, false, "end x accepted")
	f("came back, and not ended", Found{Ended: ended(record.Replaced), Begun: begun(1)}, false, true, true, "end x spooled", "attempted x 1")
}

// TestParts: what was made of a payload counts only where the payload itself is not, in
// whatever order they lie.
func TestParts(t *testing.T) {
	whole, part := payload('x', 4), payload('y', 2)
	part.Replaces = whole.ID
	for i, order := range [][]frame{{{whole, true}, {part, true}}, {{part, true}, {whole, true}}, {{whole, true}, {part, true}}, {{part, true}, {whole, true}}} {
		w := newWorld(t)
		w.vouched = i > 1
		w.covers[whole.ID], w.covers[part.ID] = true, true
		w.frames = order
		w.reconcile(Found{}, false)
		w.want("end frame y replaced")
		w.wantBooks("restored 4 spooled 4")
	}
	w := newWorld(t)
	w.vouched = true
	w.covers[whole.ID], w.covers[part.ID] = true, true
	w.frames = []frame{{part, true}, {whole, true}}
	w.reconcile(Found{Ended: map[record.BatchID]record.Outcome{whole.ID: record.Split}}, false)
	w.want()
	w.wantBooks("restored 2 spooled 2")
}

// TestPartsOfParts: the same where a part was divided too, whatever the journal knows of it.
func TestPartsOfParts(t *testing.T) {
	whole, half, rest, quarter := payload('x', 4), payload('y', 2), payload('r', 2), payload('z', 2)
	half.Replaces, rest.Replaces, quarter.Replaces = whole.ID, whole.ID, half.ID
	for _, how := range []record.Outcome{record.Replaced, record.Split} {
		w := newWorld(t)
		w.covers[whole.ID], w.covers[half.ID], w.covers[quarter.ID] = true, true, true
		w.frames = []frame{{whole, true}, {half, true}, {quarter, true}}
		w.reconcile(Found{Ended: map[record.BatchID]record.Outcome{half.ID: how}}, false)
		w.want("end frame z replaced")
		w.wantBooks("restored 4 spooled 4")
	}
	// All that is left of the whole is there: it is not read again.
	w := newWorld(t)
	w.covers[half.ID], w.covers[rest.ID], w.covers[quarter.ID] = true, true, true
	w.frames = []frame{{half, true}, {rest, true}, {quarter, true}}
	w.history = map[record.BatchID]*record.Payload{whole.ID: whole}
	w.reconcile(Found{
		Replays: map[record.BatchID]int{whole.ID: 1}, Ended: map[record.BatchID]record.Outcome{half.ID: record.Split},
	}, false)
	w.want("removed x", "replay x 2", "begin r", "end r spooled", "begin z", "end z spooled", "end frame x replaced")
	w.wantBooks("restored 4 spooled 4")
}

// TestOrphans: of a part of a part, where the one between cannot be read, nobody knows
// whether its records wait as others as well: it is named.
func TestOrphans(t *testing.T) {
	whole, quarter := payload('x', 4), payload('z', 2)
	quarter.Replaces = id('y')
	for _, lacks := range []bool{true, false} {
		w := newWorld(t)
		w.covers[whole.ID], w.covers[quarter.ID] = true, true
		w.frames = []frame{{whole, true}, {quarter, true}}
		w.reconcile(Found{}, lacks)
		w.wantBooks("restored 6 spooled 6")
		n := 0
		if lacks {
			n = 1
		}
		w.wantLog(sentAgain, n)
	}
}

// TestMissing: what the journal says is in the spool and is not is read again, and what
// nobody knows the ranges of is counted.
func TestMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.covers[id('x')], w.vouched = true, true
		w.frames = []frame{{payload('x', 2), true}}
		w.history = map[record.BatchID]*record.Payload{id('x'): payload('x', 2), id('y'): payload('y', 3)}
		unknown := &record.Payload{ID: id('z'), Pieces: []record.Piece{{File: record.File{Input: "in"}, Records: 5}}, Records: 5}
		w.reconcile(Found{Ended: map[record.BatchID]record.Outcome{id('o'): record.Accepted}}, true, unknown)
		w.want("removed o", "replay y 0")
		w.wantBooks("restored 10 spooled 10")
		w.during(func() {
			w.want("end frame z unknown, source gone", "spool y")
			w.wantBooks("restored 10 spooled 5 dropped 5")
		})
		w.wantLog(spooledGone, 1)
	})
	// What replaces it is there already: the kill came before its end was told.
	w := newWorld(t)
	part := payload('p', 3)
	part.Replaces = id('y')
	w.covers[part.ID] = true
	w.frames = []frame{{part, true}}
	w.history = map[record.BatchID]*record.Payload{id('y'): payload('y', 3), id('p'): part}
	w.reconcile(Found{Replays: map[record.BatchID]int{id('y'): 1}}, false)
	w.want("removed y", "end frame y replaced")
	w.wantBooks("restored 3 spooled 3")
	// The same, and the journal could not be written when that was made: it is told first, or
	// nothing would miss it at the start after this one.
	w = newWorld(t)
	w.covers[part.ID] = true
	w.frames = []frame{{part, true}}
	w.history = map[record.BatchID]*record.Payload{id('y'): payload('y', 3)}
	w.reconcile(Found{}, true)
	w.want("replay y 1", "begin p", "end p spooled", "end frame y replaced")
	w.wantBooks("restored 3 spooled 3")
	// What replaces it went another way, and a write that seemed to fail left it there: a
	// kill came before it ended.
	w = newWorld(t)
	w.frames = []frame{{part, true}}
	w.history = map[record.BatchID]*record.Payload{id('y'): payload('y', 3)}
	w.reconcile(Found{
		Replays: map[record.BatchID]int{id('y'): 1}, Ended: map[record.BatchID]record.Outcome{part.ID: record.Replaced},
	}, false)
	w.want("removed y", "replay y 1")
	w.wantBooks("restored 3 spooled 3")
	// Its frame cannot be read now, and can at another start: its end is remembered.
	w = newWorld(t)
	w.reconcile(Found{Ended: map[record.BatchID]record.Outcome{id('x'): record.Accepted, id('y'): record.Accepted}}, true, payload('x', 2))
	w.want("removed y")
	w.wantBooks("")
}

// TestSegmentsAreGone: what the journal says is in the spool is looked for where segments
// are gone with all that belongs to them, and only then. The journal keeps what it knows of
// segments until that is done.
func TestSegmentsAreGone(t *testing.T) {
	for _, has := range [][]uint64{nil, {2}, {1, 2, 3}} {
		w := newWorld(t)
		var noted [][]uint64
		there := &w.numbers
		there.has = has
		w.r.SpoolHas = func(all []uint64) { noted = append(noted, append(all, uint64(len(w.told)))) }
		w.history = map[record.BatchID]*record.Payload{id('y'): payload('y', 3)}
		w.reconcile(Found{Had: []uint64{1, 2}, Has: has}, false)
		// Before it hears of anything that was found it knows all, and of no others than
		// those that are there when all is told.
		all := []uint64{1, 2, 0}
		if len(has) == 3 {
			all = []uint64{1, 2, 3, 0}
		}
		if there.above != 2 {
			t.Errorf("new segments get numbers above %d, want 2", there.above)
		}
		if last := append(slices.Clone(has), uint64(len(w.told))); len(noted) != 2 || !slices.Equal(noted[0], all) || !slices.Equal(noted[1], last) {
			t.Errorf("the journal was told %v, want %v and %v", noted, all, last)
		}
		if len(has) == 3 {
			w.want()
			w.wantBooks("")
			continue
		}
		w.want("replay y 0")
		w.wantBooks("restored 3 spooled 3")
	}
}

// TestUnreadableLater: a frame that the first look at the spool can read and a later one
// cannot is counted once, as what stands for it.
func TestUnreadableLater(t *testing.T) {
	whole, part := payload('x', 4), payload('y', 4)
	part.Replaces = whole.ID
	for passes := 1; passes <= 2; passes++ {
		for _, vouched := range []bool{true, false} {
			w := newWorld(t)
			w.vouched, w.readable = vouched, map[record.BatchID]int{whole.ID: passes}
			w.covers[whole.ID], w.covers[part.ID] = true, true
			w.frames = []frame{{whole, true}, {part, true}}
			w.history = map[record.BatchID]*record.Payload{whole.ID: whole}
			w.reconcile(Found{}, true, &record.Payload{ID: whole.ID, Records: 4, Pieces: whole.Pieces})
			w.wantBooks("restored 4 spooled 4")
		}
	}
}

// TestBegun: what is done about a batch that was begun, by what is found.
func TestBegun(t *testing.T) {
	f := func(name string, set func(w *world), books, text string, told ...string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := payload('x', 2, 3)
				p.Attempt = 1
				set(w)
				w.reconcile(Found{Begun: []*record.Payload{p}}, false)
				w.during(func() {
					w.want(told...)
					w.wantBooks(books)
					w.wantLog(text, 1)
					if w.taken != 0 {
						t.Errorf("%d reservations are left", w.taken)
					}
				})
			})
		})
	}
	f("here", func(*world) {}, "restored 5 pending 5", sentAgain, `send x "5"`)
	f("other bytes", func(w *world) { w.other = true }, "restored 6 pending 6", sentAs, `send a "6"`)
	f("gone", func(w *world) { w.files[file1], w.files[file2] = ErrGone, ErrGone }, "restored 5 dropped 5", unknownGone, "end x unknown, source gone")
	f("in part", func(w *world) { w.files[file1] = ErrGone }, "restored 5 pending 3 dropped 2", unknownGone,
		"split x a b", "end b unknown, source gone", `send a "3"`)
	f("in part, and the rest not now", func(w *world) { w.files[file1], w.files[file2] = ErrGone, syscall.EACCES }, "", waits[OfRun])
	for _, not := range []error{syscall.EACCES, syscall.EMFILE, syscall.EIO} {
		f(not.Error(), func(w *world) { w.files[file1] = not }, "", waits[OfRun])
	}
	f("not configured", func(w *world) { w.shaped, w.files[file1] = ErrNotConfigured, ErrGone }, "", waits[OfRun])
	f("not served", func(w *world) { w.served = nil }, "", waits[OfRun])

	reading := func(refused int, tables ...string) *Reading {
		r := &Reading{Empty: []record.Extent{{File: file1, Span: record.Span{Start: 40, End: 50}}}}
		for _, to := range tables {
			part := payload(0, 2)
			part.Route.Table, part.Body = to, []byte(to)
			r.Parts = append(r.Parts, part)
		}
		for range refused {
			r.Refused = append(r.Refused, record.Rejected{File: file1, Reason: record.Malformed})
		}
		return r
	}
	changed := func(r *Reading) func(w *world) {
		return func(w *world) { w.shaped, w.anew = ErrReshaped, r }
	}
	f("changed", changed(reading(0, "u")), "restored 2 pending 2", sentAnew, "skip [40,50)", `send a "u"`)
	f("changed, for two tables", changed(reading(0, "u", "v")), "restored 4 pending 4", sentAnew,
		"skip [40,50)", "split x a b", `send a "u"`, `send b "v"`)
	f("changed, some refused", changed(reading(3, "u")), "restored 5 pending 2 quarantined 3", sentAnew,
		"quarantine 3", "skip [40,50)", `send a "u"`)
	f("changed, all refused", changed(reading(3)), "restored 3 quarantined 3", sentAnew, "quarantine 3", "skip [40,50)", "end x quarantined")
	f("changed, nothing in it", changed(reading(0)), "", sentAnew, "skip [40,50)", "end x replaced")
	f("changed and gone", func(w *world) {
		changed(nil)(w)
		w.files[file1], w.files[file2] = ErrGone, ErrGone
	}, "restored 5 dropped 5", unknownGone, "end x unknown, source gone")
	f("changed and not now", func(w *world) { changed(nil)(w); w.files[file1] = syscall.EACCES }, "", waits[OfRun])
	f("changed, in part", func(w *world) { changed(reading(0, "u"))(w); w.files[file2] = ErrGone }, "restored 5 pending 2 dropped 3", sentAnew,
		"skip [40,50)", "split x a b", "end b unknown, source gone", `send a "u"`)
	f("changed by a reload between two looks", func(w *world) {
		w.anew, w.readErr = reading(0, "u"), func(*record.Payload) error { return ErrReshaped }
	}, "restored 2 pending 2", sentAnew, "skip [40,50)", `send a "u"`)
	f("changed, for a cluster that nobody sends to", func(w *world) {
		changed(reading(1, "u"))(w)
		w.anew.Parts[0].Route.Cluster = "another"
	}, "", waits[OfRun])
	f("in part, and the rest not any more", func(w *world) {
		w.files[file1], w.readErr = ErrGone, func(p *record.Payload) error {
			if len(p.Cover) == 1 {
				return syscall.EIO
			}
			return nil
		}
	}, "", waits[OfRun])
	f("changed, quarantine is full", func(w *world) { changed(reading(1, "u"))(w); w.unkept = errors.New("full") }, "", waits[OfRun], "quarantine 1")
}

// TestTriedAgain: what cannot be read now is asked about every 10 s and logged once for
// each reason, and is sent when it can be.
func TestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.files[file1] = syscall.EACCES
		w.reconcile(Found{Begun: []*record.Payload{payload('x', 2)}}, false)
		w.during(func() {
			time.Sleep(time.Minute)
			synctest.Wait()
			w.want()
			w.wantLog(waits[OfRun], 1)
			if now, waiting, absent := w.r.Pending(); now != 0 || waiting != 1 || absent != 0 {
				t.Errorf("pending %d, %d, %d", now, waiting, absent)
			}
			w.mu.Lock()
			delete(w.files, file1)
			w.mu.Unlock()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			w.want(`send x "2"`)
		})
	})
}

// lost is a payload of two files that vanishes from the spool while it is open.
func (w *world) lost() {
	p := payload('x', 2, 3)
	p.Attempt = 1
	w.history[p.ID] = p
	w.books.Restored("in", 5)
	w.books.Spooled("in", 5)
	w.r.Lost([]record.BatchID{p.ID}, p)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) == 0 || w.told[0] != "replay x 0" { // before Lost returns
		w.t.Errorf("told %q, want that the journal has it as tried first", w.told)
		return
	}
	w.told = w.told[1:]
}

// TestLost: what is done about what the spool lost, by what is found.
func TestLost(t *testing.T) {
	f := func(name string, set func(w *world), books, text string, told ...string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				set(w)
				w.during(func() {
					w.lost()
					w.want(append([]string{"replay x 1"}, told...)...)
					w.wantBooks(books)
					w.wantLog(text, 1)
				})
			})
		})
	}
	full := errors.New("full")
	f("here", func(*world) {}, "restored 5 spooled 5", readAgain, "spool x")
	f("here, the spool full", func(w *world) { w.putErr = full }, "restored 5 pending 5", readAgain, `send x "5"`)
	f("other bytes", func(w *world) { w.other = true }, "restored 6 spooled 6", readAs,
		"replay x 2", "begin a", "spool a", "end a spooled", "end frame x replaced")
	f("other bytes, the spool full", func(w *world) { w.other, w.putErr = true, full }, "restored 6 pending 6", readAs,
		"replay x 2", "begin a", `send a "6"`)
	f("gone", func(w *world) { w.files[file1], w.files[file2] = ErrGone, ErrGone }, "restored 5 dropped 5", spooledGone, "end frame x unknown, source gone")
	f("in part", func(w *world) { w.files[file1] = ErrGone }, "restored 5 spooled 3 dropped 2", spooledGone,
		"replay x 2", "begin a", "spool a", "end a spooled", "begin b", "end b unknown, source gone", "end frame x replaced")
	f("not now", func(w *world) { w.files[file1] = syscall.EACCES }, "restored 5 spooled 5", waits[OfSpool])
	f("for a cluster that nobody sends to", func(w *world) { w.served = nil }, "restored 5 spooled 5", waits[OfSpool])
	f("not configured", func(w *world) { w.shaped, w.files[file1] = ErrNotConfigured, ErrGone }, "restored 5 spooled 5", waits[OfSpool])
	f("changed, with fewer records", func(w *world) {
		part := payload(0, 2)
		part.Body = []byte("u")
		w.shaped, w.anew = ErrReshaped, &Reading{Parts: []*record.Payload{part}, Refused: []record.Rejected{{File: file1, Reason: record.Malformed}}}
	}, "restored 5 spooled 2 quarantined 1 joined 2", readAnew,
		"quarantine 1", "replay x 2", "begin a", "spool a", "end a spooled", "end frame x replaced")
}

// TestBytesOfWhatIsLost: a table is told as many bytes as the records have that are gone,
// of a batch that was begun and of one that was in the spool.
func TestBytesOfWhatIsLost(t *testing.T) {
	batch := func() *record.Payload {
		p := payload('x', 2, 3)
		p.Route.Database, p.RawBytes, p.Attempt = "d", 500, 1
		return p
	}
	f := func(name string, want ledger.Sum, begin func(w *world), gone ...record.File) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for _, file := range gone {
					w.files[file] = ErrGone
				}
				begin(w)
				w.during(func() {
					_, tables := w.books.Report()
					if got := tables[ledger.Table{Database: "d", Table: "t"}].Dropped; got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
				})
			})
		})
	}
	begun := func(w *world) { w.reconcile(Found{Begun: []*record.Payload{batch()}}, false) }
	spooled := func(w *world) {
		p := batch()
		w.history[p.ID] = p
		w.books.Restored("in", 5)
		w.books.Spooled("in", 5)
		w.r.Lost([]record.BatchID{p.ID}, p)
	}
	f("begun, gone", ledger.Sum{Records: 5, Bytes: 500}, begun, file1, file2)
	f("begun, gone in part", ledger.Sum{Records: 2, Bytes: 200}, begun, file1)
	f("spooled, gone", ledger.Sum{Records: 5, Bytes: 500}, spooled, file1, file2)
	f("spooled, gone in part", ledger.Sum{Records: 3, Bytes: 300}, spooled, file2)
}

// TestLostAndUnknown: where the journal does not reach back to what vanished it is counted,
// and where it cannot be read now, that waits.
func TestLostAndUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.noJnl = syscall.EIO
		w.during(func() {
			w.books.Restored("in", 7)
			w.books.Spooled("in", 7)
			w.history[id('x')] = payload('x', 2)
			w.r.Lost([]record.BatchID{id('x'), id('y')}, payload(0, 7))
			synctest.Wait()
			w.want("replay x 0", "replay y 0")
			w.wantBooks("restored 7 spooled 7")
			w.mu.Lock()
			w.noJnl = nil
			w.mu.Unlock()
			time.Sleep(11 * time.Second)
			synctest.Wait()
			w.want("replay x 0", "end frame y unknown, source gone", "spool x")
			w.wantBooks("restored 7 spooled 2 dropped 5")
		})
	})
}

// TestLostWhileTheJournalCannotBeWritten: what the history lacks is not given up as long as
// the journal has entries that are not on the disk.
func TestLostWhileTheJournalCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.unwell = syscall.ENOSPC
		w.during(func() {
			w.books.Restored("in", 7)
			w.books.Spooled("in", 7)
			w.history[id('x')] = payload('x', 2)
			w.r.Lost([]record.BatchID{id('x'), id('y')}, payload(0, 7))
			synctest.Wait()
			w.want("replay x 0", "replay y 0", "replay x 0", "spool x")
			w.wantBooks("restored 7 spooled 7")
			w.mu.Lock()
			w.unwell, w.history[id('y')] = nil, payload('y', 5)
			w.mu.Unlock()
			time.Sleep(11 * time.Second)
			synctest.Wait()
			w.want("replay y 0", "spool y")
			w.wantBooks("restored 7 spooled 7")
			w.wantLog("are lost", 0)
		})
	})
}

// TestLostBeforeTheJournalIsWritten: what the journal was told, and has not written yet
// though its disk takes it, is waited for.
func TestLostBeforeTheJournalIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.unwritten = map[record.BatchID]*record.Payload{id('x'): payload('x', 2)}
		w.during(func() {
			w.books.Restored("in", 2)
			w.books.Spooled("in", 2)
			w.r.Lost([]record.BatchID{id('x')}, payload(0, 2))
			synctest.Wait()
			w.want("replay x 0", "replay x 0", "spool x")
			w.wantBooks("restored 2 spooled 2")
			w.wantLog("are lost", 0)
		})
	})
}

// TestTriedAndForgotten: a payload that was tried out of the spool, and is neither there nor
// in the history, is told.
func TestTriedAndForgotten(t *testing.T) {
	w := newWorld(t)
	if err := w.r.Reconcile(Found{Replays: map[record.BatchID]int{id('x'): 2}, Report: func() (bool, []*record.Payload) { return false, nil }}); err != nil {
		t.Fatal(err)
	}
	w.want("removed x")
	w.wantLog("how many records are lost is not known", 1)
}

// TestSentFromMemory: the frames of what is sent in place of a payload of the spool may come
// back: their ends are told before that of the request.
func TestSentFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.putErr = errors.New("full")
		j := w.r.Watched(w)
		w.during(func() {
			w.lost()
			w.want("replay x 1", `send x "5"`)
			p := payload('x', 2, 3)
			p.Attempt = 2
			_ = j.Begin(p)
			w.want("replay x 2", "begin x") // a start would drop the begin alone
			w.r.Removed([]record.BatchID{p.ID, id('o')})
			w.want("removed o")
			w.r.Unwanted([]record.BatchID{p.ID, id('o')})
			w.want("end frame o replaced")
			_ = j.End(p.ID, record.Accepted)
			w.want("end frame x accepted", "end x accepted")

			w.other = true
			w.lost()
			w.want("replay x 1", "replay x 2", "begin a", `send a "6"`)
			_ = j.Split(id('a'), []*record.Payload{payload('l', 3), payload('r', 3)})
			_ = j.End(id('a'), record.Accepted) // it has ended with its split
			_ = j.End(id('l'), record.Spooled)
			w.want("split a l r", "end a accepted", "end l spooled")
			_ = j.End(id('r'), record.Quarantined)
			w.want("end frame r quarantined", "end frame x replaced", "end r quarantined")
			_ = j.End(id('r'), record.Quarantined)
			w.want("end r quarantined")

			// What takes the place of a payload comes to rest in the spool: a kill between
			// leaves both there, and not neither.
			w.lost()
			w.want("replay x 1", "replay x 2", "begin b", `send b "6"`)
			_ = j.End(id('b'), record.Spooled)
			w.want("end b spooled", "end frame x replaced")
		})
	})
}

// TestOlderFrames: what was put into the spool again is remembered for as long as the
// segment of its older frame may be there.
func TestOlderFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		w.during(func() {
			p := payload('x', 2)
			p.Attempt = 3
			w.books.Restored("in", 2)
			w.books.Spooled("in", 2)
			w.r.Damaged(p)
			w.r.Removed([]record.BatchID{p.ID}) // its segment went to damaged/ before it was read again
			close(w.block)
			synctest.Wait()
			w.want("replay x 3", "spool x")
			w.r.Removed([]record.BatchID{p.ID})
			w.want()
			w.r.Removed([]record.BatchID{p.ID})
			w.want("removed x")
		})
	})
}

// TestThreeFrames: the frame that was put into the spool in place of a damaged one is
// damaged too, and the next one seems to fail and comes to the disk later. Until the last of
// them is gone the journal knows how the payload ended.
func TestThreeFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.r.Watched(w)
		w.during(func() {
			p := payload('x', 2)
			w.books.Restored("in", 2)
			w.books.Spooled("in", 2)
			w.r.Damaged(p)
			synctest.Wait()
			w.want("replay x 0", "spool x")
			w.putErr = record.ErrStalled
			w.r.Damaged(payload('x', 2))
			w.r.Unwanted([]record.BatchID{p.ID})
			synctest.Wait()
			w.want("replay x 0", `send x "2"`)
			_ = j.End(p.ID, record.Accepted)
			w.want("end frame x accepted", "end x accepted")
			w.r.Removed([]record.BatchID{p.ID, p.ID}) // both lie in one segment
			w.want()
			w.r.Removed([]record.BatchID{p.ID})
			w.want("removed x")
		})
	})
}

// TestAbsent: what waits for an input is told from what waits for a file.
func TestAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.shaped = ErrNotConfigured
		w.reconcile(Found{Begun: []*record.Payload{payload('x', 2)}}, false)
		if now, waiting, absent := w.r.Pending(); now != 1 || waiting != 0 || absent != 0 {
			t.Errorf("pending %d, %d, %d", now, waiting, absent)
		}
		w.during(func() {
			if now, waiting, absent := w.r.Pending(); now != 0 || waiting != 1 || absent != 1 {
				t.Errorf("pending %d, %d, %d", now, waiting, absent)
			}
		})
	})
}

// TestWrittenAndNotRead: what goes back into a spool that can be written and not read is
// kept for its turn, a few at a time, and is not put there for ever.
func TestWrittenAndNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.during(func() {
			var all []*record.Payload
			for i := range byte(mostReady + 1) {
				p := payload('p'+i, 2)
				all = append(all, p)
				w.books.Restored("in", 2)
				w.books.Spooled("in", 2)
				if w.r.Damaged(p) {
					t.Error("filled, and nothing was read")
				}
			}
			synctest.Wait()
			for _, p := range all {
				if w.r.Damaged(p) {
					t.Error("filled, and it was readable as far as anybody knew")
				}
			}
			synctest.Wait()
			filled := 0
			for _, p := range all[:mostReady] { // the last waits for a place
				own := payload(p.ID[0], 2)
				if w.r.Damaged(own) {
					filled++
					if string(own.Body) != "2" || own.ID != p.ID {
						t.Errorf("filled with %q of %v", own.Body, own.ID)
					}
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if filled != mostReady || w.taken != 0 {
				t.Errorf("%d filled, %d reservations left", filled, w.taken)
			}
		})
	})
}

// TestWrittenAndLost: bodies are not kept for frames that vanished with their segment, whether
// their ids are known or not; others that wait for a place go on.
func TestWrittenAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.during(func() {
			for range 2 {
				for i := range byte(mostReady) {
					p := payload('p'+i, 2)
					w.books.Restored("in", 2)
					w.books.Spooled("in", 2)
					w.r.Damaged(p)
				}
				synctest.Wait()
			}
			if !w.r.isReadyFull() {
				t.Fatal("no bodies are kept")
			}
			w.r.Lost(nil, payload('z', 2))
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.r.isReadyFull() || w.taken != 0 {
				t.Errorf("bodies are kept for what is gone; %d reservations left", w.taken)
			}
		})
	})
}

// TestReadableAgain: of a payload that could be read from the spool after all no body is
// kept; others that wait for that go on.
func TestReadableAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.r.Watched(w)
		w.during(func() {
			var all []*record.Payload
			for i := range byte(mostReady + 1) {
				all = append(all, payload('p'+i, 2))
			}
			for range 2 { // the second time their bodies are kept
				for _, p := range all {
					w.books.Restored("in", 2)
					w.books.Spooled("in", 2)
					w.r.Damaged(p)
				}
				synctest.Wait()
			}
			kept := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.taken }
			if _, waiting, _ := w.r.Pending(); waiting != 1 || kept() != mostReady {
				t.Errorf("%d wait, and %d are kept", waiting, kept())
			}
			for _, p := range all[:mostReady] {
				_ = j.Replay(p.ID, 1)
			}
			if n := kept(); n != 0 {
				t.Errorf("%d are kept of payloads that are being sent", n)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if _, waiting, _ := w.r.Pending(); waiting != 0 {
				t.Errorf("%d wait", waiting)
			}
		})
	})
}

// TestMemory: one payload is read at a time, and none while there is no room.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.putErr, w.room = errors.New("full"), 3
		var begun []*record.Payload
		for i := range byte(10) {
			begun = append(begun, payload('p'+i, 2))
		}
		w.reconcile(Found{Begun: begun}, false)
		w.during(func() {
			time.Sleep(time.Minute)
			synctest.Wait()
			if w.most != 1 || len(w.told) != 3 {
				t.Errorf("%d at a time, %d sent", w.most, len(w.told))
			}
			w.mu.Lock()
			w.room = 100
			w.mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
			if w.most != 1 || len(w.told) != 10 || w.taken != 0 {
				t.Errorf("%d at a time, %d sent", w.most, len(w.told))
			}
		})
	})
}

// TestSlowDisk: nobody waits for a disk that does not answer: not who tells of a loss, not
// other batches, not a stop.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		var begun []*record.Payload
		for i := range byte(4) {
			begun = append(begun, payload('p'+i, 2))
		}
		w.reconcile(Found{Begun: begun}, false)
		w.during(func() {
			began := time.Now()
			w.r.Lost([]record.BatchID{id('y')}, payload(0, 7))
			if w.r.Damaged(payload('z', 1)) || time.Since(began) > 0 {
				t.Error("it was waited for")
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if w.most != mostAway {
				t.Errorf("%d looks are away, and hold memory", w.most)
			}
			w.mu.Lock()
			w.told = nil
			close(w.block)
			w.block = nil
			w.mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			if now, waiting, _ := w.r.Pending(); now+waiting > 0 || w.taken != 0 {
				t.Errorf("%d and %d are left, %d reservations", now, waiting, w.taken)
			}
		})
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		block := make(chan struct{})
		w.block = block
		w.reconcile(Found{Begun: []*record.Payload{payload('x', 2)}}, false)
		began := time.Now()
		w.during(func() {})
		if time.Since(began) > 0 {
			t.Errorf("the stop took %v", time.Since(began))
		}
		w.want()
		close(block)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.room = 0
		w.reconcile(Found{Begun: []*record.Payload{payload('x', 2)}}, false)
		began := time.Now()
		w.during(func() {})
		if time.Since(began) > 0 {
			t.Errorf("the stop took %v without memory", time.Since(began))
		}
	})
}
