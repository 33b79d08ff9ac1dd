package e2e

import (
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kusto-agent/emulator"
)

// link is a way to a service that carries connections as it is told.
type link struct {
	to    string
	delay time.Duration // of each direction
	rate  int           // bytes a second of each direction; 0: all it gets
	lost  int           // each of so many pieces comes late by twice the delay, as one that TCP sends again; 0: none

	mu    sync.Mutex
	conns map[net.Conn]bool // of both sides
}

// open listens for connections until the end of the test, and has the site's agents use it.
func (l *link) open(s *site) {
	s.t.Helper()
	l.to, l.conns = strings.TrimPrefix(s.url, "http://"), map[net.Conn]bool{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", l.to)
			if err != nil {
				near.Close()
				continue
			}
			l.mu.Lock()
			l.conns[near], l.conns[far] = true, true
			l.mu.Unlock()
			running.Go(func() { l.carry(near, far) })
			running.Go(func() { l.carry(far, near) })
		}
	})
	s.t.Cleanup(func() {
		ln.Close()
		l.cut()
		running.Wait()
	})
	s.url = "http://" + ln.Addr().String()
}

// cut breaks all connections off.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // its peer sees a reset
		}
		c.Close()
	}
	clear(l.conns)
}

// carry copies one direction of a connection to its end.
func (l *link) carry(to, from net.Conn) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1<<16)
	go func() { // ends with from, which the loop below closes at the latest
		defer close(pieces)
		free := time.Now()
		for n := 1; ; n++ {
			b := make([]byte, 1400)
			got, err := from.Read(b)
			if got > 0 {
				if now := time.Now(); free.Before(now) {
					free = now
				}
				if l.rate > 0 {
					free = free.Add(time.Duration(got) * time.Second / time.Duration(l.rate))
				}
				if l.lost > 0 && n%l.lost == 0 {
					free = free.Add(2 * l.delay) // what follows waits for it
				}
				pieces <- piece{b[:got], free.Add(l.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	_, _ = io.Copy(io.Discard, from)
	for range pieces {
	}
}

// TestSlowLink: over a link of 1 Mbit/s with a second to go and one to come back, on which
// pieces come late as where packets are lost, all is stored, and no request is made twice.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	(&link{delay: time.Second, rate: 125_000, lost: 4}).open(s)
	records := jsonRecords(0, 3000)
	s.write("logs/a.json", joined(records))
	p := s.run(open + "batch: {max_records: 500}\n" + oneJSON)
	s.awaitRows("T", len(records))
	p.awaitBooks("T", func(a account) bool { return int(a.accepted) == len(records) && a.pending == 0 })
	p.stop()
	s.wantRows("T", records)
	s.wantUniqueRequests()
	for _, r := range s.server.Requests() {
		if r.Attempt != 1 {
			t.Errorf("batch %s was sent again", batchOf(r))
		}
	}
	p.wantComplaints()
}

// TestStoppedAndContinued: while the process is stopped a request is stored whose answer is
// lost, and all connections are reset. When it goes on, it believes none of that to be an
// acceptance: the batch is sent again, over a new connection, and named by the audit.
func TestStoppedAndContinued(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	var l link
	l.open(s)
	struck := s.server.Fail(emulator.Fault{Hang: true, When: emulator.AfterCommit, Times: 1})
	records := jsonRecords(0, 300)
	s.write("logs/a.json", joined(records[:100]))
	p := s.run(open + "batch: {max_records: 100, max_wait: 1h}\nsend: {retry: {initial: 10ms}}\n" + oneJSON)
	s.awaitHits(struck, 1)
	s.awaitRows("T", 100)
	p.signal(syscall.SIGSTOP)
	l.cut()
	s.append("logs/a.json", joined(records[100:]))
	p.signal(syscall.SIGCONT)
	s.awaitRows("T", 400)
	p.awaitBooks("T", func(a account) bool { return a.accepted == 300 && a.pending == 0 })
	if got := p.metric("unknown_outcomes_total"); got != 1 {
		t.Errorf("unknown_outcomes_total %v, want 1", got)
	}
	p.stop()
	s.wantRows("T", append(records[:100:100], records...))
	s.wantAttempts()
	if r := s.audited(0); problems(r) != "unknown" || len(r.Files[0].Troubles[0].Batches) != 1 {
		t.Errorf("the audit names %s", problems(r))
	}
}
