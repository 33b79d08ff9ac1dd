package batcher

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/logzip"
	"kusto-agent/internal/logzip/corpus"
	"kusto-agent/internal/record"
)

// wrong is an encoder that spoils the payload of a number, counted from 1.
type wrong struct {
	logzip.Encoder
	at, n int
	spoil func(member []byte) []byte
}

func (w *wrong) Append(dst []byte, t *logzip.Tables, parts ...[]byte) []byte {
	out := w.Encoder.Append(dst, t, parts...)
	if w.n++; w.n == w.at {
		return append(out[:len(dst)], w.spoil(bytes.Clone(out[len(dst):]))...)
	}
	return out
}

func gunzip(t *testing.T, body []byte) []byte {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// other is a sound member of other bytes.
func other(raw string) []byte {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	_, _ = io.WriteString(zw, raw)
	_ = zw.Close()
	return buf.Bytes()
}

// An encoder that is wrong is seen at the first payload and at every thousandth,
// its payload is compressed by klauspost, it is told once, and is not used again.
func TestEncoderFault(t *testing.T) {
	raw := [][]byte{corpus.Of("json").Make(2000, 1), corpus.Of("json").Make(1500, 2)}
	whole := bytes.Join(raw, nil)
	f := func(name string, at int, told string, spoil func([]byte) []byte) {
		t.Helper()
		var faults []string
		made := 0
		d := deflater{
			onFault: func(err error) { faults = append(faults, err.Error()) },
			fresh: func(each func([]byte)) gzipper {
				made++
				return &wrong{Encoder: logzip.Encoder{Each: each}, at: at, spoil: spoil}
			},
		}
		var tables logzip.Tables
		for n := 1; n <= at; n++ {
			var body []byte
			var sum uint32
			if body, sum, tables = d.deflate(make([]byte, 0, 64), tables, Limits{Level: 1}, raw); n == at && !bytes.Equal(gunzip(t, body), whole) {
				t.Fatalf("%s: what is sent is not the payload", name)
			}
			if sum != Checksum(whole) {
				t.Fatalf("%s: the checksum of payload %d is not that of its bytes", name, n)
			}
		}
		for range 3 {
			body, sum, _ := d.deflate(nil, tables, Limits{Level: 1}, raw)
			if !bytes.Equal(body, deflateKlauspost(nil, raw, 1)) || sum != Checksum(whole) {
				t.Errorf("%s: the encoder is used after its fault", name)
			}
		}
		if len(faults) != 1 || !strings.Contains(faults[0], told) || made != 1 || !d.off.Load() {
			t.Errorf("%s: told %q, want %q once; %d encoders", name, faults, told, made)
		}
	}
	flip := func(i int) func([]byte) []byte {
		return func(m []byte) []byte { m[(len(m)+i)%len(m)] ^= 0x10; return m }
	}
	f("body", 1, "verify a payload", flip(400))
	f("body, later", verifyEvery, "verify a payload", flip(400))
	f("checksum", 1, "checksum", flip(-8))
	f("length", 1, "checksum", flip(-4))
	f("header", 1, "header", flip(0))
	f("cut", 1, "EOF", func(m []byte) []byte { return m[:len(m)/2] })
	f("cut in the end", 1, "EOF", func(m []byte) []byte { return m[:len(m)-1] })
	f("nothing", 1, "EOF", func(m []byte) []byte { return nil })
	f("other bytes", 1, "differs", func([]byte) []byte { return other(strings.Repeat("x", len(whole))) })
	f("last byte", 1, "differs", func([]byte) []byte { return other(string(whole[:len(whole)-1]) + "x") })
	f("too short", 1, "EOF", func([]byte) []byte { return other(string(whole[:len(whole)-1])) })
	f("too long", 1, "more than", func([]byte) []byte { return other(string(whole) + "x") })
	f("two members", 1, "follow", func(m []byte) []byte { return append(m, m...) })
	f("panic", 1, "panic: broken", func([]byte) []byte { panic("broken") })
	f("panic, later", 2, "panic: broken", func([]byte) []byte { panic("broken") })
}

// TestEncodersAreCheckedTogether: one payload in verifyEvery is checked to its end, whichever encoder
// compressed it, and the beginning of the first.
func TestEncodersAreCheckedTogether(t *testing.T) {
	t.Parallel()
	f := func(name string, from int64, want int64, raw []byte, spoil func(member []byte)) {
		t.Helper()
		faults := 0
		d := deflater{onFault: func(error) { faults++ }}
		d.fresh = func(each func([]byte)) gzipper {
			w := &wrong{Encoder: logzip.Encoder{Each: each}}
			if d.payloads.Load()+1 >= from {
				w.at, w.spoil = 1, func(m []byte) []byte { spoil(m); return m }
			}
			return w
		}
		for faults == 0 && d.payloads.Load() <= 2*verifyEvery {
			d.free = nil // as if another encoder compressed each payload
			d.deflate(nil, logzip.Tables{}, Limits{Level: 1}, [][]byte{raw})
		}
		if got := d.payloads.Load(); got != want {
			t.Errorf("%s: found with payload %d, want %d", name, got, want)
		}
	}
	early := func(m []byte) { m[len(m)/8] ^= 0x10 }
	late := func(m []byte) { m[len(m)-8] ^= 1 } // the checksum
	few := []byte("some few bytes of a record\n")
	f("a short payload", 1, 1, few, late)
	f("all payloads after the first", 2, verifyEvery, few, late)
	f("after a check", verifyEvery+1, 2*verifyEvery, few, late)
	f("the beginning of a long one", 1, 1, corpus.Of("json").Make(2*verifyFirst, 1), early)
	if !testing.Short() {
		f("the end of a long one", 1, verifyEvery, corpus.Of("json").Make(2*verifyFirst, 1), late)
	}
}

// An encoder that does not go through the payload as it is, so that the checksum is
// not that of its bytes, is wrong too.
func TestEncoderSums(t *testing.T) {
	raw := [][]byte{corpus.Of("json").Make(200_000, 1)}
	for name, each := range map[string]func(add func([]byte)) func([]byte){
		"not seen": func(func([]byte)) func([]byte) { return nil },
		"other bytes": func(add func([]byte)) func([]byte) {
			return func(p []byte) { add(bytes.ToUpper(p)) }
		},
	} {
		var faults []string
		d := deflater{
			onFault: func(err error) { faults = append(faults, err.Error()) },
			fresh:   func(add func([]byte)) gzipper { return newGzipper(each(add)) },
		}
		body, sum, _ := d.deflate(nil, logzip.Tables{}, Limits{Level: 1}, raw)
		if !bytes.Equal(body, deflateKlauspost(nil, raw, 1)) || sum != Checksum(raw...) {
			t.Errorf("%s: not the payload and its checksum", name)
		}
		if len(faults) != 1 || !strings.Contains(faults[0], "seen") {
			t.Errorf("%s: told %q, want one fault", name, faults)
		}
	}
}

// Which encoder compresses is said by the level and the key.
func TestEncoderChoice(t *testing.T) {
	raw := [][]byte{corpus.Of("nginx").Make(100_000, 1)}
	for level := 1; level <= 9; level++ {
		for _, e := range []Encoder{Auto, Klauspost, ""} {
			used := 0
			d := deflater{fresh: func(each func([]byte)) gzipper { used++; return newGzipper(each) }}
			body, sum, _ := d.deflate(nil, logzip.Tables{}, Limits{Level: level, Encoder: e}, raw)
			if !bytes.Equal(gunzip(t, body), raw[0]) || sum != Checksum(raw[0]) {
				t.Fatalf("level %d, %q: not the payload", level, e)
			}
			if want := level == 1 && e != Klauspost; want != (used > 0) {
				t.Errorf("level %d, %q: logzip used: %v", level, e, !want)
			}
		}
	}
}

// The tables of a route pass from payload to payload, and those of another route
// are its own.
func TestTablesOfRoutes(t *testing.T) {
	b, _ := start(t, Limits{MaxBytes: 100_000, MaxWait: time.Hour, Gzip: true, Level: 1}, 1<<30)
	one, two := corpus.Of("json").Make(100_000, 1), corpus.Of("json").Make(100_000, 2)
	fill := func(r record.Route, text []byte) []byte {
		p := &record.Payload{Route: r}
		b.Fill(p, text)
		if body(t, p) != string(text) {
			t.Fatal("what is sent is not the payload")
		}
		return p.Body
	}
	var e logzip.Encoder
	var tables, fresh logzip.Tables
	if !bytes.Equal(fill(routeA, one), e.Append(nil, &tables, one)) {
		t.Error("a route does not begin as a stream does")
	}
	second, alone := e.Append(nil, &tables, two), e.Append(nil, &fresh, two)
	if bytes.Equal(second, alone) {
		t.Fatal("tables make no difference here")
	}
	if !bytes.Equal(fill(routeA, two), second) {
		t.Error("the second payload of a route does not use the tables of the first")
	}
	if !bytes.Equal(fill(routeB, two), alone) {
		t.Error("a route uses the tables of another")
	}
}

// Whoever runs a batcher is told of a fault, and its payload leaves as it should.
func TestEncoderFaultIsTold(t *testing.T) {
	var faults []error
	b := New(Options{
		Routes:    map[record.Route]Limits{routeA: {MaxBytes: 1000, MaxWait: time.Hour, Gzip: true, Level: 1}},
		GzipFault: func(err error) { faults = append(faults, err) },
	})
	b.deflater.fresh = func(each func([]byte)) gzipper {
		return &wrong{Encoder: logzip.Encoder{Each: each}, at: 1, spoil: func(m []byte) []byte { return m[1:] }}
	}
	for range 3 {
		p := &record.Payload{Route: routeA}
		b.Fill(p, []byte("{\"a\":1}\n"))
		if got := body(t, p); got != "{\"a\":1}\n" {
			t.Errorf("sent %q", got)
		}
	}
	if len(faults) != 1 {
		t.Errorf("told %v, want one fault", faults)
	}
}
