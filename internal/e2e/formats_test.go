package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/linkedin/goavro/v2"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"kusto-agent/emulator"
	"kusto-agent/internal/custody"
)

// columns is a table whose columns are filled by mappings of each kind.
const columns = `{"databases":{"Logs":{"tables":{"T":{"columns":"n:long, note:string, env:string, batch:string, file:string, gen:int, at:long","mappings":[
	{"name":"m","kind":"Json","columns":[{"column":"n","path":"$.seq"},{"column":"note","path":"$.in.note"},{"column":"env","path":"$.env"},
		{"column":"batch","path":"$.batch"},{"column":"file","path":"$.file"},{"column":"gen","path":"$.generation"},{"column":"at","path":"$.offset"}]},
	{"name":"m","kind":"Avro","columns":[{"column":"n","field":"seq"},{"column":"note","path":"$.in.note"}]}]}}}}}`

// tableRow is a row as its table has it.
type tableRow struct {
	N           int64
	Note, Env   string
	Batch, File string
	Gen, At     *int64
}

func (s *site) tableRows() (all []tableRow) {
	s.t.Helper()
	for row := range s.server.All("Logs", "T", 0) {
		text, err := json.Marshal(row)
		var r tableRow
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// wantNumbers expects rows with these numbers, each once, and the note that
// belongs to it.
func (s *site) wantNumbers(want ...int) {
	s.t.Helper()
	var got []int
	for _, r := range s.tableRows() {
		got = append(got, int(r.N))
		if r.Note != noteOf(int(r.N)) {
			s.t.Errorf("row %d has the note %q", r.N, r.Note)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("rows %v, want %v", got, want)
	}
}

func noteOf(n int) string { return fmt.Sprintf("%s %d", recordMark, n) }

func object(n int) string { return fmt.Sprintf(`{"seq":%d,"in":{"note":%q}}`, n, noteOf(n)) }

// pretty is an object over several lines, indented.
func pretty(n int, indent string) string {
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(object(n)), indent, "  "); err != nil {
		panic(err)
	}
	return indent + out.String()
}

// held are the lines of quarantine, in short and in the order of the offsets.
// The data of each must be the bytes of its range.
func (s *site) held(file string) (all []string) {
	s.t.Helper()
	text := s.read(file)
	lines := s.quarantined()
	slices.SortFunc(lines, func(a, b map[string]any) int { return int(a["offset"].(float64) - b["offset"].(float64)) })
	for _, q := range lines {
		at, length := int(q["offset"].(float64)), int(q["length"].(float64))
		data, _ := q["data"].(string)
		if q["data_base64"] != nil {
			raw, err := base64.StdEncoding.DecodeString(q["data_base64"].(string))
			if err != nil {
				s.t.Fatal(err)
			}
			data = string(raw)
		}
		if source := text[at : at+length]; data != source && (q["truncated"] != true || !strings.HasPrefix(source, data)) {
			s.t.Errorf("data of %d bytes at %d is not that of the file: %.200q", len(data), at, data)
		}
		if q["path"] != s.path(file) {
			s.t.Errorf("path %v", q["path"])
		}
		all = append(all, fmt.Sprintf("%s %d+%d", q["reason"], at, length))
	}
	return all
}

func (s *site) wantHeld(file string, want ...string) {
	s.t.Helper()
	if got := s.held(file); !slices.Equal(got, want) {
		s.t.Errorf("quarantine holds %q, want %q", got, want)
	}
}

// place tells in short where part lies in text.
func place(reason, text, part string) string {
	return fmt.Sprintf("%s %d+%d", reason, strings.Index(text, part), len(part))
}

// TestMultiJSON: objects in any layout are stored once, with their columns; bad
// ones are kept, and cost their neighbours nothing.
func TestMultiJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, columns)})
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	bad := `{"seq":7,"in":{"note":01}}`
	refused := strings.Replace(pretty(8, "  "), recordMark, "wont-do", 1)[2:]
	long := `{"seq":9,"in":{"note":"` + strings.Repeat("x", 3000) + `"}}`
	text := "\xEF\xBB\xBF" + object(0) + object(1) + "\r\n" + pretty(2, "") + "\n\n[" + object(3) + "," + object(4) + "]\n[\n" +
		pretty(5, "  ") + ",\n  " + refused + ",\n  " + bad + ",\n" + pretty(6, "  ") + "\n]\n" + long + "\n" + object(10)
	s.write("logs/a.data", text)
	config := open + `inputs: [{paths: ["${DIR}/logs/*.data"], table: T, mapping: m, format: multijson, max_record_size: 2KiB}]`
	s.once(config, 1)
	s.wantNumbers(0, 1, 2, 3, 4, 5, 6, 10)
	s.wantHeld("logs/a.data", place("refused", text, refused), place("malformed", text, "  "+bad), place("too_long", text, long+"\n"))
	s.wantUniqueRequests()
	for _, r := range s.server.Requests() {
		if r.Format != "MultiJSON" || r.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("sent as %s, %q", r.Format, r.Header.Get("Content-Encoding"))
		}
	}
	s.append("logs/a.data", "\n"+pretty(11, ""))
	s.once(config, 0)
	s.wantNumbers(0, 1, 2, 3, 4, 5, 6, 10, 11)
}

const avroSchema = `{"type":"record","name":"row","fields":[{"name":"seq","type":"long"},
	{"name":"in","type":{"type":"record","name":"inner","fields":[{"name":"note","type":["null","string"]}]}}]}`

func avroRow(n int) map[string]any {
	return map[string]any{"seq": int64(n), "in": map[string]any{"note": goavro.Union("string", noteOf(n))}}
}

// avroFile is a container file, each of the ranges of numbers in a block; the
// offsets are those where its header and its blocks end.
func avroFile(t *testing.T, codec string, blocks ...[2]int) (text string, ends []int) {
	t.Helper()
	var out bytes.Buffer
	if codec == "zstandard" {
		w, err := ocf.NewWriter(&out, avro.MustParse(avroSchema), ocf.WithCodec(ocf.MustZstdCodec(nil, nil)), ocf.WithBlockBytes(1<<30))
		for i := 0; err == nil && i < len(blocks); i++ {
			ends = append(ends, out.Len())
			for n := blocks[i][0]; err == nil && n < blocks[i][1]; n++ {
				err = w.Encode(map[string]any{"seq": n, "in": map[string]any{"note": noteOf(n)}})
			}
			if err == nil {
				err = w.Flush()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), append(ends, out.Len())
	}
	w, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &out, Schema: avroSchema, CompressionName: codec})
	for i := 0; err == nil && i < len(blocks); i++ {
		ends = append(ends, out.Len())
		var rows []any
		for n := blocks[i][0]; n < blocks[i][1]; n++ {
			rows = append(rows, avroRow(n))
		}
		err = w.Append(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), append(ends, out.Len())
}

func numbers(from, to int) (all []int) {
	for ; from < to; from++ {
		all = append(all, from)
	}
	return all
}

const avroInput = `inputs: [{paths: ["${DIR}/logs/*.avro"], table: T, mapping: m}]`

// TestAvro: of a container file of any codec each record is stored once; a
// damaged block, one that is too large and one that the file ends in are kept.
func TestAvro(t *testing.T) {
	t.Parallel()
	f := func(codec string) {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{Schema: schemaOf(t, columns)})
			// The block of 40,000 is too large, whatever the codec makes of it.
			text, ends := avroFile(t, codec, [2]int{0, 40}, [2]int{40, 41}, [2]int{41, 80}, [2]int{80, 90}, [2]int{1_000_000, 1_040_000}, [2]int{90, 300}, [2]int{300, 301})
			damaged := []byte(text[:ends[7]-3])
			damaged[ends[3]-1] ^= 1 // the marker of the third block, and with it the fourth
			s.write("logs/a.avro", string(damaged))
			config := open + "batch: {max_size: 50kB}\n" + avroInput
			s.once(config, 1)
			s.wantNumbers(slices.Concat(numbers(0, 41), numbers(90, 300))...)
			s.wantHeld("logs/a.avro", fmt.Sprintf("malformed %d+%d", ends[2], ends[4]-ends[2]), fmt.Sprintf("too_long %d+%d", ends[4], ends[5]-ends[4]),
				fmt.Sprintf("malformed %d+%d", ends[6], ends[7]-3-ends[6]))
			for _, r := range s.server.Requests() {
				if r.Format != "Avro" || r.Header.Get("Content-Encoding") != "" {
					t.Fatalf("sent as %s, %q", r.Format, r.Header.Get("Content-Encoding"))
				}
			}
			s.wantUniqueRequests()
			if again := s.once(config, 0); len(again.entries(sentAgain)) > 0 {
				t.Error("something was sent again")
			}
			s.wantNumbers(slices.Concat(numbers(0, 41), numbers(90, 300))...)
		})
	}
	f("null")
	f("deflate")
	f("snappy")
	f("zstandard")
}

// TestAvroRefused: a block that the service will not take is kept as one, and
// the blocks beside it are stored.
func TestAvroRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, columns)})
	text, ends := avroFile(t, "null", [2]int{0, 10}, [2]int{10, 20}, [2]int{20, 30}, [2]int{30, 31}, [2]int{31, 90})
	s.write("logs/a.avro", text)
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: noteOf(15)}, Status: 400})
	p := s.once(open+avroInput, 1)
	s.wantNumbers(slices.Concat(numbers(0, 10), numbers(20, 90))...)
	s.wantHeld("logs/a.avro", fmt.Sprintf("refused %d+%d", ends[1], ends[2]-ends[1]))
	p.await(1, "records were refused and are in quarantine", `"records":10`)
	s.wantUniqueRequests()
	if r, _ := did[custody.Requeued](s, 1, "quarantine", "requeue", "--all"); r.Refused != 1 || r.Accepted != 0 {
		t.Errorf("requeue of what is refused again: %+v", r)
	}
	s.wantHeld("logs/a.avro", fmt.Sprintf("refused %d+%d", ends[1], ends[2]-ends[1]))
	s.server.Recover()
	if r, _ := did[custody.Requeued](s, 0, "quarantine", "requeue", "--all"); r.Accepted != 1 {
		t.Errorf("requeue: %+v", r)
	}
	s.wantNumbers(numbers(0, 90)...)
	s.wantHeld("logs/a.avro")
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: noteOf(15)}, Status: 400})
	// The service may refuse what only it can see to be wrong: here the records
	// of a block are not what the schema says.
	unsound := []byte(text)
	unsound[ends[0]+4] = 0x7e // behind count, size and seq: the branch of a union
	s.write("logs/b.avro", string(unsound))
	s.once(open+avroInput, 1)
	s.wantNumbers(slices.Concat(numbers(0, 90), numbers(20, 90))...)
}

// TestAvroGrowsAndRotates: a file that grows while it is read and is renamed
// for the next one loses nothing, and no payload has blocks of two files.
func TestAvroGrowsAndRotates(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, columns)})
	p := s.run(open + `inputs: [{paths: ["${DIR}/logs/a.avro*"], format: Avro, table: T, mapping: m, batch: {max_wait: 50ms}}]`)
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	total := 0
	for file := range 4 {
		text, _ := avroFile(t, []string{"null", "deflate", "snappy", "zstandard"}[file], [2]int{total, total + 50}, [2]int{total + 50, total + 51}, [2]int{total + 51, total + 400})
		total += 400
		for len(text) > 0 {
			n := min(len(text), 1+random.IntN(3000))
			s.append("logs/a.avro", text[:n])
			text = text[n:]
		}
		if file%2 == 0 {
			s.awaitRows("T", total)
		}
		s.rename("logs/a.avro", fmt.Sprintf("logs/a.avro.%d", file))
	}
	s.awaitRows("T", total)
	p.awaitBooks("T", func(a account) bool { return a.accepted == float64(total) && a.pending == 0 })
	p.stop()
	s.wantNumbers(numbers(0, total)...)
	if n := len(s.quarantined()); n > 0 {
		t.Errorf("%d blocks in quarantine", n)
	}
}

// TestAvroCopyTruncate: what was copied away and truncated is stored once, and
// so is what the application writes afterwards, which begins with a new header.
func TestAvroCopyTruncate(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, columns)})
	p := s.run(open + `inputs: [{paths: ["${DIR}/logs/*.avro"], table: T, mapping: m, batch: {max_wait: 50ms}}]`)
	for n := range 3 {
		text, _ := avroFile(t, "deflate", [2]int{100 * n, 100*n + 70}, [2]int{100*n + 70, 100*n + 100})
		s.append("logs/a.avro", text)
		s.awaitRows("T", 100*(n+1))
		s.write(fmt.Sprintf("logs/a.avro.%d", n), s.read("logs/a.avro"))
		if err := os.Truncate(s.path("logs/a.avro"), 0); err != nil {
			t.Fatal(err)
		}
		p.await(n+1, "file was truncated or replaced, reading it from the start")
	}
	p.stop()
	s.wantNumbers(numbers(0, 300)...)
}

const fieldsInput = `inputs: [{name: app, paths: ["${DIR}/logs/*.json"], format: %s, table: T, mapping: m, max_record_size: 2KiB,
  fields: {env: "${ENV}-{{x}", batch: "{batch}", file: "{file}", generation: "{generation}", offset: "{offset}", src: "{host} {path} {input}"}}]`

// TestFields: each row has the fields of its record, its place in the file and
// the batch it came with; what is kept of a refused record is what was in the
// file.
func TestFields(t *testing.T) {
	t.Parallel()
	f := func(format string) {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{Schema: schemaOf(t, columns)})
			s.env = []string{"ENV=prod"}
			s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
			s.server.Fail(emulator.Fault{Status: 503, Times: 2}) // a retry has the same bytes
			var text string
			var want []string
			refused := strings.Replace(object(50), recordMark, "wont-do", 1)
			for n := range 100 {
				if n == 50 {
					text += "  " + refused + "\r\n"
					continue
				}
				want = append(want, fmt.Sprintf("%d %d", n, len(text)))
				text += object(n) + "\n"
			}
			own := `{"seq":100,"env":"own","in":{"note":"` + noteOf(100) + `"}}`
			want = append(want, fmt.Sprintf("%d %d", 100, len(text)))
			text += own // without its newline
			s.write("logs/a.json", text)
			config := strings.Replace(open, "database:", "send: {retry: {initial: 10ms}}\ndatabase:", 1) + fmt.Sprintf(fieldsInput, format)
			s.once(config, 1)
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range s.tableRows() {
				got = append(got, fmt.Sprintf("%d %d", r.N, *r.At))
				if env := map[bool]string{true: "own", false: "prod-{x}"}[r.N == 100]; r.Env != env || *r.Gen != 0 || len(r.File) != 16 || r.Note != noteOf(int(r.N)) {
					t.Errorf("row %+v", r)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("rows %q, want %q", got, want)
			}
			source := refused + "\r\n"
			if format == "JSON" {
				source = "  " + source
			}
			s.wantHeld("logs/a.json", place("refused", text, source))
			s.wantBatches()
			s.wantUniqueRequests()
			end := fmt.Sprintf(`,"src":"%s %s app"}`, host, s.path("logs/a.json"))
			for row := range s.server.All("Logs", "T", 0) {
				raw := string(row.Raw)
				if !strings.HasSuffix(raw, end) || strings.Contains(raw, `"own"`) && !strings.HasPrefix(raw, strings.TrimSuffix(own, "}")) {
					t.Errorf("row %s does not begin as its record does or does not end in %s", raw, end)
				}
			}
		})
	}
	f("JSON")
	f("MultiJSON")
}

// TestFieldsChanged: a batch that was begun before the fields were changed is
// sent with the new ones under a new id, which its rows bear.
func TestFieldsChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, columns)})
	hang := s.server.Fail(emulator.Fault{Hang: true, Times: 1})
	s.write("logs/a.json", joined([]string{object(0), object(1)}))
	s.env = []string{"ENV=before"}
	p := s.run(open + fmt.Sprintf(fieldsInput, "JSON"))
	s.awaitHits(hang, 1)
	p.kill()
	s.env = []string{"ENV=after"}
	p = s.once(open+fmt.Sprintf(fieldsInput, "JSON"), 0)
	e := p.await(1, sentAnew)
	s.wantNumbers(0, 1)
	for _, r := range s.tableRows() {
		if r.Env != "after-{x}" || r.Batch != e.text("replaced_by") {
			t.Errorf("row %+v, want the batch %s", r, e.text("replaced_by"))
		}
	}
	s.wantBatches()
}

// wantBatches: each row bears the id of a batch that was stored, and there are
// as many rows of a batch as it has records.
func (s *site) wantBatches() {
	s.t.Helper()
	stored, rows := make(map[string]int), make(map[string]int)
	for _, r := range s.server.Requests() {
		if r.Stored {
			stored[batchOf(r)] += r.Records
		}
	}
	for _, r := range s.tableRows() {
		rows[r.Batch]++
	}
	if !maps.Equal(stored, rows) {
		s.t.Errorf("rows of batches %v, stored %v", rows, stored)
	}
}

// TestGrown: a record that its fields make longer than a payload may be is
// kept, the others are stored.
func TestGrown(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	long := `{"seq":1,"x":"` + strings.Repeat("x", 1950) + `"}`
	text := object(0) + "\n" + long + "\n" + object(2) + "\n"
	s.write("logs/a.json", text)
	p := s.run(open+`inputs: [{paths: ["${DIR}/logs/*.json"], table: T, mapping: m, batch: {max_size: 2kB}, fields: {id: "{batch}/{file}/{offset}"}}]`, "--once")
	p.want(1)
	s.wantHeld("logs/a.json", place("grown", text, long+"\n"))
	if n := s.server.RowCount("Logs", "T"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// TestKillsWithFields: after any kill the stamps of the stored rows are those of
// the records that were written, and what is stored twice is the same to the
// last byte, its batch included.
func TestKillsWithFields(t *testing.T) {
	t.Parallel()
	c := crash{records: 40_000, perFile: 10_000, kills: 3, ahead: 12_000, config: "batch: {max_size: 256KiB}\n"}
	if testing.Short() {
		c.records, c.perFile, c.kills, c.ahead = 12_000, 4_000, 2, 5_000
	}
	c.site = newSite(t, emulator.Options{KeepRequests: 1 << 20})
	c.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 5_000_000})
	config := open + c.config + `inputs: [{paths: ["${DIR}/logs/app.json*"], format: JSON, table: T, mapping: m,
  fields: {batch: "{batch}", file: "{file}", generation: "{generation}", offset: "{offset}"}}]`
	c.killed(config)

	type place struct {
		File               string
		Generation, Offset int
	}
	var r struct {
		Seq, Batch string
		place
	}
	rows, files := make(map[place]string), make(map[string]int)
	batches := make(map[string]bool)
	for row := range c.server.All("Logs", "T", 0) {
		if err := json.Unmarshal(row.Raw, &r); err != nil {
			t.Fatal(err)
		}
		var seq int
		fmt.Sscan(strings.TrimLeft(r.Seq, "0")+" ", &seq)
		first, known := files[r.File]
		if !known {
			first = seq - r.Offset/crashRecord
			files[r.File] = first
		}
		if seq != first+r.Offset/crashRecord || r.Offset%crashRecord != 0 || r.Generation != 0 {
			t.Fatalf("record %d has the stamp %+v, file begins with %d", seq, r.place, first)
		}
		if was, twice := rows[r.place]; twice && was != string(row.Raw) {
			t.Fatalf("stored as\n%s\nand as\n%s", was, row.Raw)
		}
		rows[r.place] = string(row.Raw)
		batches[r.Batch] = true
	}
	if len(rows) != c.records || len(files) != (c.records+c.perFile-1)/c.perFile {
		t.Errorf("%d records of %d files are stored, want %d", len(rows), len(files), c.records)
	}
	for _, r := range c.server.Requests() {
		if r.Stored {
			delete(batches, batchOf(r))
		}
	}
	if len(batches) > 0 {
		t.Errorf("%d batches are in rows that no request has stored", len(batches))
	}
	c.wantUniqueRequests()
}

// killed has the application write while the agent is killed again and again,
// until all that was written is safe.
func (c *crash) killed(config string) {
	c.t.Helper()
	written := make(chan struct{})
	// Started here, ended when all is written or the test fails, awaited below.
	go func() {
		defer close(written)
		c.apply()
	}()
	for n := range c.kills {
		p := c.site.run(config)
		c.awaitRows("T", (c.records*n+rand.IntN(c.records))/(c.kills+1))
		p.kill()
		c.named(p)
	}
	p := c.site.run(config)
	<-written
	p.awaitBooks("T", func(account) bool { return c.server.RowCount("Logs", "T") >= c.records && p.allRead() })
	c.named(p)
	p.stop()
}

// TestKillsWithAvro: after any kill each record of container files that grow and
// are rotated is stored, and twice only if its batch is named.
func TestKillsWithAvro(t *testing.T) {
	t.Parallel()
	files, blocks, perBlock, kills := 6, 120, 40, 3
	if testing.Short() {
		files, kills = 3, 2
	}
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20, Schema: schemaOf(t, columns)})
	s.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 5_000_000})
	config := open + "batch: {max_size: 20kB, max_wait: 20ms}\n" + `inputs: [{paths: ["${DIR}/logs/a.avro*"], format: Avro, table: T, mapping: m}]`
	total := files * blocks * perBlock
	written := make(chan struct{})
	// Started here, ended when all is written or the test fails, awaited below.
	go func() {
		defer close(written)
		for file := range files {
			s.writeAvro("logs/a.avro", file*blocks*perBlock, blocks, perBlock)
			s.rename("logs/a.avro", fmt.Sprintf("logs/a.avro.%d", file))
			if s.server.WaitRows(t.Context(), "Logs", "T", (file-1)*blocks*perBlock) != nil {
				return
			}
		}
	}()
	named := int64(0)
	count := func(p *process) {
		for _, e := range p.entries(sentAgain) {
			named += e.number("records")
		}
		for _, word := range []string{"another body", "source is gone", "rewritten", "truncated or replaced"} {
			if strings.Contains(p.log.text(), word) {
				t.Errorf("the log has %q", word)
			}
		}
	}
	for n := range kills {
		p := s.run(config)
		s.awaitRows("T", (total*n+rand.IntN(total))/(kills+1))
		p.kill()
		count(p)
	}
	p := s.run(config)
	<-written
	s.until("all is accepted", func() bool {
		return s.server.RowCount("Logs", "T") >= total && p.allAccepted("T")
	})
	p.stop()
	count(p)
	stored := make(map[int64]int)
	double := int64(0)
	for _, r := range s.tableRows() {
		if stored[r.N]++; stored[r.N] > 1 {
			double++
		}
	}
	t.Logf("%d records sent again, %d double", named, double)
	if len(stored) != total || double > named {
		t.Errorf("%d records are stored, want %d; %d are double, %d were named", len(stored), total, double, named)
	}
	if n := len(s.quarantined()); n > 0 {
		t.Errorf("%d blocks in quarantine", n)
	}
	s.wantUniqueRequests()
}

// writeAvro writes a container file block by block, as an application does.
func (s *site) writeAvro(name string, first, blocks, perBlock int) {
	f, err := os.OpenFile(s.path(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if os.IsNotExist(err) {
		s.write(name, "")
		f, err = os.OpenFile(s.path(name), os.O_WRONLY|os.O_APPEND, 0o644)
	}
	if err != nil {
		s.t.Error(err)
		return
	}
	defer f.Close()
	w, err := ocf.NewWriter(f, avro.MustParse(avroSchema), ocf.WithCodec(ocf.DeflateCodec(flate.BestSpeed)))
	for n := 0; err == nil && n < blocks*perBlock; n++ {
		if err = w.Encode(map[string]any{"seq": first + n, "in": map[string]any{"note": noteOf(first + n)}}); err == nil && n%perBlock == perBlock-1 {
			err = w.Flush()
		}
	}
	if err != nil {
		s.t.Error(err)
	}
}
