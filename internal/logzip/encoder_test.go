package logzip

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	kgzip "github.com/klauspost/compress/gzip"

	"kusto-agent/internal/logzip/corpus"
)

var update = flag.Bool("update", false, "write testdata/golden.txt anew")

// inflate is what two decoders make of one member, which have to agree, and
// nothing may follow it.
func inflate(t testing.TB, member []byte) []byte {
	t.Helper()
	in := bytes.NewReader(member)
	zr, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal("compress/gzip:", err)
	}
	zr.Multistream(false)
	raw, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal("compress/gzip:", err)
	}
	if in.Len() > 0 {
		t.Fatalf("%d bytes follow the member", in.Len())
	}
	kr, err := kgzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal("klauspost:", err)
	}
	again, err := io.ReadAll(kr)
	if err != nil {
		t.Fatal("klauspost:", err)
	}
	if !bytes.Equal(raw, again) {
		t.Fatal("compress/gzip and klauspost disagree")
	}
	return raw
}

func sameBytes(t testing.TB, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%d bytes came back of %d; they differ from byte %d on", len(got), len(want), i)
}

// random is n bytes that cannot be compressed.
func random(n int, seed uint64) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		seed += 0x9E3779B97F4A7C15
		z := (seed ^ seed>>30) * 0xBF58476D1CE4E5B9
		b = binary.LittleEndian.AppendUint64(b, z^z>>27^z>>31)
	}
	return b[:n]
}

// streams are payloads in a row that have one set of tables.
func streams() map[string][][]byte {
	all := make(map[string][][]byte)
	for _, k := range corpus.Kinds() {
		for _, size := range []int{90, 700, 9_000, 70_000, 300_000} {
			all[fmt.Sprintf("%s/%d", k.Name, size)] = k.Payloads(size, 4, 7)
		}
	}
	all["4 MB"] = corpus.Of("mixed").Payloads(4_000_000, 1, 3)
	// Each finds the tables of quite another text.
	var stale [][]byte
	for i, k := range corpus.Kinds() {
		stale = append(stale, k.Make(40_000<<(i%4), 5), random(30_000+i, 9), bytes.Repeat([]byte{'a' + byte(i)}, 100_000))
	}
	all["stale"] = stale
	var odd [][]byte
	for n := range 300 {
		odd = append(odd, random(n, uint64(n)), bytes.Repeat([]byte("x"), n), corpus.Of("json").Make(n, uint64(n)))
	}
	all["short"] = odd
	var edges [][]byte
	text := corpus.Of("k8s").Make(600_000, 2)
	for _, n := range []int{smallSize, margin, window, chunkSize, 65535, 65536, 2 * chunkSize, 4 * chunkSize} {
		for d := -1; d <= 1; d++ {
			odd := text[n%97:]
			edges = append(edges, odd[:n+d], random(n+d, 1), make([]byte, n+d))
		}
	}
	all["edges"] = edges
	var halves [][]byte
	for i := range 6 {
		halves = append(halves, append(append(random(50_000*i, 4), text[:70_000*i]...), random(90_000, 4)...))
	}
	all["random and text"] = halves
	all["empty"] = [][]byte{{}, nil, []byte("a\n"), {}}
	return all
}

// TestStreams compresses every stream, and lets compress/gzip, klauspost, gzip
// and zlib judge each member. No member may be larger than MaxLen says.
func TestStreams(t *testing.T) {
	var e Encoder // one for all: what it did before must not matter
	file, err := os.Create(filepath.Join(t.TempDir(), "members.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	whole := crc32.NewIEEE()
	for name, payloads := range streams() {
		t.Run(name, func(t *testing.T) {
			var tables, again Tables
			var other Encoder
			for i, p := range payloads {
				if testing.Short() && len(p) > 256<<10 {
					p = p[:256<<10]
				}
				kept := bytes.Clone(p)
				out := e.Append(nil, &tables, p)
				if !bytes.Equal(p, kept) {
					t.Fatal("the payload was written to")
				}
				if len(out) > MaxLen(len(p)) {
					t.Errorf("payload %d of %d bytes became %d; at most %d were promised", i, len(p), len(out), MaxLen(len(p)))
				}
				sameBytes(t, inflate(t, out), p)
				if !bytes.Equal(out, other.Append(nil, &again, p)) {
					t.Errorf("payload %d: an encoder that did other work before writes other bytes", i)
				}
				if _, err := file.Write(out); err != nil {
					t.Fatal(err)
				}
				whole.Write(p)
			}
		})
	}
	t.Run("gzip -t", func(t *testing.T) {
		tool(t, "gzip", "-t", file.Name())
	})
	t.Run("zlib", func(t *testing.T) {
		const script = `
import sys, zlib
data, crc = open(sys.argv[1], 'rb').read(), 0
while data:
    d = zlib.decompressobj(31)
    crc = zlib.crc32(d.decompress(data), crc)
    if not d.eof: sys.exit('a member breaks off')
    data = d.unused_data if len(d.unused_data) < len(data) else sys.exit('stuck')
print('%08x' % crc)
`
		got := strings.TrimSpace(tool(t, "python3", "-c", script, file.Name()))
		if want := fmt.Sprintf("%08x", whole.Sum32()); got != want {
			t.Errorf("zlib reads bytes with CRC %s, want %s", got, want)
		}
	})
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// Each is called with the bytes of a payload as they are, whatever is tried with
// them: of one that is small, in parts, or does not compress.
func TestEach(t *testing.T) {
	random := make([]byte, 300_000)
	rand.NewChaCha8([32]byte{1}).Read(random)
	json := corpus.Of("json").Make(700_000, 1)
	var e Encoder
	var seen []byte
	e.Each = func(p []byte) { seen = append(seen, p...) }
	for _, parts := range [][][]byte{nil, {{}}, {json[:100]}, {json[:100], json[100:4000]}, {json}, {json[:5], random, json}, {random, random}, {json, make([]byte, 200_000)}} {
		var tables Tables
		for range 2 {
			seen = seen[:0]
			e.Append(nil, &tables, parts...)
			if whole := bytes.Join(parts, nil); !bytes.Equal(seen, whole) {
				t.Errorf("of %d bytes in %d parts %d were seen, or others", len(whole), len(parts), len(seen))
			}
		}
	}
}

// TestParts compresses payloads that come in parts, behind what is in dst already.
func TestParts(t *testing.T) {
	text := append(corpus.Of("json").Make(200_000, 1), random(80_000, 1)...)
	for _, cuts := range [][]int{{0}, {1}, {5, 10}, {3000, 3001, 9000}, {100_000, 200_000}, {199_999, 270_000}} {
		for _, whole := range [][]byte{text, text[:min(cuts[len(cuts)-1]+40, len(text))]} {
			var e Encoder
			var tables Tables
			var parts [][]byte
			at := 0
			for _, c := range cuts {
				parts, at = append(parts, whole[at:c]), c
			}
			parts = append(parts, whole[at:])
			out := e.Append([]byte("before"), &tables, parts...)
			rest, ok := bytes.CutPrefix(out, []byte("before"))
			if !ok {
				t.Fatalf("cuts %v: what was in dst changed", cuts)
			}
			if most := MaxLen(len(whole)) + 5*len(cuts); len(rest) > most {
				t.Errorf("cuts %v: %d bytes, at most %d were promised", cuts, len(rest), most)
			}
			sameBytes(t, inflate(t, rest), whole)
		}
	}
}

// TestSize holds the size of the output against that of klauspost's level 1.
func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("sizes are the same in the long form")
	}
	var buf bytes.Buffer
	zw, err := kgzip.NewWriterLevel(&buf, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range corpus.Kinds() {
		for _, size := range []int{4_000_000, 256 << 10} {
			var e Encoder
			var tables Tables
			ours, theirs := 0, 0
			for _, p := range k.Payloads(size, max(1, 2_000_000/size), 11) {
				ours += len(e.Append(nil, &tables, p))
				buf.Reset()
				zw.Reset(&buf)
				zw.Write(p)
				zw.Close()
				theirs += buf.Len()
			}
			most := 1.03
			switch {
			case k.Name == "mixed":
				most = 1.05
			case !k.Tuned:
				most = 1.04
			}
			if ratio := float64(ours) / float64(theirs); ratio > most {
				t.Errorf("%s in payloads of %d bytes: %d bytes, %.3f times klauspost's; at most %.2f are wanted", k.Name, size, ours, ratio, most)
			}
		}
	}
}

// TestStale holds the size where each payload finds the tables of another text,
// and no other encoder would have any.
func TestStale(t *testing.T) {
	if testing.Short() {
		t.Skip("sizes are the same in the long form")
	}
	var buf bytes.Buffer
	zw, err := kgzip.NewWriterLevel(&buf, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{20_000, 60_000, 400_000} {
		var e Encoder
		var tables Tables
		ours, theirs := 0, 0
		for i := range 40 {
			p := corpus.Of([]string{"json", "utf8", "csv", "java"}[i%4]).Make(size, uint64(i))
			ours += len(e.Append(nil, &tables, p))
			buf.Reset()
			zw.Reset(&buf)
			zw.Write(p)
			zw.Close()
			theirs += buf.Len()
		}
		if ratio := float64(ours) / float64(theirs); ratio > 1.12 {
			t.Errorf("payloads of %d bytes: %.3f times klauspost's size", size, ratio)
		}
	}
}

// TestAllocations: an encoder in use allocates nothing where dst has room.
func TestAllocations(t *testing.T) {
	for _, size := range []int{200, 20_000, 1_000_000} {
		var e Encoder
		var tables Tables
		payloads := corpus.Of("mixed").Payloads(size, 4, 1)
		payloads = append(payloads, random(size, 1))
		dst := make([]byte, 0, 2*size+4096)
		parts := make([][]byte, 1)
		if n := testing.AllocsPerRun(3, func() {
			for _, p := range payloads {
				parts[0] = p
				e.Append(dst, &tables, parts...)
			}
		}); n > 0 {
			t.Errorf("%.0f allocations for %d payloads of %d bytes", n, len(payloads), size)
		}
	}
}

// TestRoom: a buffer that is too small grows no further than the worst case needs.
func TestRoom(t *testing.T) {
	for name, p := range map[string][]byte{
		"random": random(1_000_000, 1), "text": corpus.Of("csv").Make(1_000_000, 1), "little": random(100, 1),
	} {
		for _, room := range []int{0, 1, 17, 512, len(p)/3 + 512, len(p)} {
			var e Encoder
			var tables Tables
			e.Append(nil, &tables, corpus.Of("nginx").Make(100_000, 1)) // makes tables stale
			out := e.Append(make([]byte, 0, room), &tables, p)
			sameBytes(t, inflate(t, out), p)
			if most := MaxLen(len(p)) + 8*headerRoom; cap(out) > most {
				t.Errorf("%s: from a capacity of %d it grew to %d, more than %d", name, room, cap(out), most)
			}
		}
	}
}

func TestState(t *testing.T) {
	if n := unsafe.Sizeof(Encoder{}); n > 32<<10 {
		t.Errorf("an encoder takes %d bytes", n)
	}
	if n := unsafe.Sizeof(Tables{}); n > 512 {
		t.Errorf("the tables of a stream take %d bytes", n)
	}
}

// TestGolden holds the very bytes against those written down, which every build
// has to write: with unsafe loads and without, on every processor. Where the
// encoder is meant to write others, -update writes them down.
func TestGolden(t *testing.T) {
	const path = "testdata/golden.txt"
	all := streams()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var got bytes.Buffer
	var e Encoder
	for _, name := range names {
		var tables Tables
		sum, size := crc32.NewIEEE(), 0
		for _, p := range all[name] {
			out := e.Append(nil, &tables, p)
			sum.Write(out)
			size += len(out)
		}
		fmt.Fprintf(&got, "%08x %9d  %s\n", sum.Sum32(), size, name)
	}
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("other bytes than in %s:\n%s", path, got.Bytes())
	}
}
