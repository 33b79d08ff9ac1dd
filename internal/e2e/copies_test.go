package e2e

import (
	"os"
	"slices"
	"testing"

	"kusto-agent/emulator"
)

// TestPartOfABegunBatch: where one file of a batch in doubt is gone after a kill,
// the records of the others are sent, and only its own are given up and counted.
func TestPartOfABegunBatch(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	config := open + "batch: {max_wait: 500ms}\n" + oneJSON
	records := jsonRecords(0, 80)
	s.write("logs/c.json", joined(records[30:])) // enough to know its copy by
	s.once(config, 0)
	s.write("logs/a.json", joined(records[:10]))
	s.write("logs/b.json", joined(records[10:20]))
	s.append("logs/c.json", joined(records[20:30]))
	hang := s.server.Fail(emulator.Fault{Hang: true})
	p := s.run(config)
	s.awaitHits(hang, 1)
	p.kill()
	s.must(os.Remove(s.path("logs/b.json")))
	s.write("logs/c.json.1", s.read("logs/c.json"))
	s.tick()
	s.write("logs/c.json", "") // what it held is in its copy
	hang.Remove()

	p = s.run(config)
	s.awaitRows("T", 70)
	p.awaitBooks("T", func(a account) bool { return a.restored == 30 && a.accepted == 20 && a.dropped == 10 && a.pending == 0 })
	if n := len(p.entries(sentInPart)); n != 1 {
		t.Errorf("that a part is sent is told %d times", n)
	}
	lost := p.await(1, "outcome of a batch of an earlier run is unknown and its source is gone: records that the service did not store are lost")
	if n := lost.number("records"); n != 10 {
		t.Errorf("%d records are said to be lost, want 10", n)
	}
	p.stop()
	s.once(config, 0)
	s.wantRows("T", append(records[:10:10], records[20:]...))
}

// TestBegunThenCopied: a batch that was begun and nothing else is known of, and its
// file was copied and truncated after the kill. It is made again from the copy, and the
// copy is not read beside it, by no later run either.
func TestBegunThenCopied(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := jsonRecords(0, 60)
	s.write("logs/a.json", joined(records[:50]))
	away := s.server.Fail(emulator.Fault{Status: 503})
	config := open + "send: {retry: {patience: 1m}}\n" + oneJSON
	p := s.run(config)
	s.awaitHits(away, 1)
	p.kill()
	s.write("logs/a.json.1", s.read("logs/a.json"))
	s.append("logs/a.json.1", joined(records[50:55])) // which came between the last read and the copy
	s.tick()                                          // without a later time nothing shows that the copy is older
	s.write("logs/a.json", joined(records[55:]))
	p = s.run(config)
	s.awaitHits(away, 3)
	p.kill()
	away.Remove()
	s.once(config, 0)
	s.wantRows("T", records)
}

// TestOnceReadsCopies: a run that looks once does not wait to see whether a file that
// holds the same as another is a copy of it that is going to be truncated.
func TestOnceReadsCopies(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := jsonRecords(0, 50)
	for _, name := range []string{"a.json", "a.json.1", "a.json.2"} {
		s.write("logs/"+name, joined(records))
	}
	s.write("logs/a.json.3", joined(records[:3]))
	s.once(open+oneJSON, 0)
	s.wantRows("T", slices.Concat(records, records, records, records[:3]))
}
