package emulator

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/linkedin/goavro/v2"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"kusto-agent/emulator/internal/kql"
	"kusto-agent/emulator/internal/mgmt"
)

// container writes one container file, each record in a block of its own.
func container(t testing.TB, schema string, codec ocf.Codec, records ...any) string {
	t.Helper()
	var out bytes.Buffer
	w, err := ocf.NewWriter(&out, avro.MustParse(schema), ocf.WithCodec(codec))
	for i := 0; err == nil && i < len(records); i++ {
		if err = w.Encode(records[i]); err == nil {
			err = w.Flush()
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const rowSchema = `{"type":"record","name":"row","fields":[{"name":"a","type":"long"},{"name":"b","type":["null","string"]}]}`

func row(a int64, b any) map[string]any { return map[string]any{"a": a, "b": b} }

func TestAvroRows(t *testing.T) {
	s := New(Options{})
	f := func(body string, want ...string) {
		t.Helper()
		skip := s.RowCount("d", "t")
		if w := post(s, ingestURL("d", "t", "avro", "m"), body); w.Code != 200 {
			t.Errorf("got %d %s", w.Code, w.Body)
			return
		}
		if got := raws(s, "d", "t")[skip:]; !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}
	}
	for _, codec := range []ocf.Codec{nil, ocf.DeflateCodec(flate.BestSpeed), ocf.SnappyCodec(), ocf.MustZstdCodec(nil, nil)} {
		f(container(t, rowSchema, codec, row(1, "x"), row(math.MaxInt64, nil)), `{"a":1,"b":"x"}`, `{"a":9223372036854775807,"b":null}`)
	}
	f(container(t, `{"type":"record","name":"r","fields":[
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"day","type":{"type":"int","logicalType":"time-millis"}},
		{"name":"dec","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":3}},
		{"name":"f","type":"float"},{"name":"d","type":"double"},
		{"name":"text","type":"bytes"},{"name":"bytes","type":"bytes"},
		{"name":"list","type":{"type":"array","items":["long","string"]}},
		{"name":"map","type":{"type":"map","values":"boolean"}},
		{"name":"id","type":{"type":"fixed","name":"u","size":16,"logicalType":"uuid"}}]}`, nil,
		map[string]any{
			"at": time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC), "day": 90*time.Minute + 5*time.Millisecond, "dec": big.NewRat(12345, 1000),
			"f": float32(0.1), "d": math.Inf(1), "text": []byte("ü"), "bytes": []byte{0xff, 0}, "list": []any{int64(1), "x"},
			"map": map[string]any{"k": true}, "id": [16]byte{1, 15: 0xff},
		}),
		`{"at":"2026-03-01T12:00:00.123456Z","bytes":"/wA=","d":"+Inf","day":"01:30:00.0050000","dec":"12.345","f":0.1,`+
			`"id":"01000000-0000-0000-0000-0000000000ff","list":[1,"x"],"map":{"k":true},"text":"ü"}`)
}

// What another library writes is read too.
func TestAvroOfAnotherLibrary(t *testing.T) {
	s := New(Options{})
	var out bytes.Buffer
	w, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &out, Schema: rowSchema, CompressionName: "snappy"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]any{row(1, goavro.Union("string", "x")), row(2, nil)}); err != nil {
		t.Fatal(err)
	}
	if w := post(s, ingestURL("d", "t", "Avro", "m"), zip(out.String()), "Content-Encoding", "gzip"); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if got := raws(s, "d", "t"); !slices.Equal(got, []string{`{"a":1,"b":"x"}`, `{"a":2,"b":null}`}) {
		t.Errorf("rows %q", got)
	}
}

func TestAvroMappings(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, `{"databases":{"Logs":{"tables":{"T":{"columns":"a:long, b:string, at:datetime","mappings":[
		{"name":"id","kind":"avro"},
		{"name":"m","kind":"Avro","columns":[{"column":"b","path":"$.in.x"},{"column":"a","field":"n"},{"column":"at","field":"t"}]}]}}}}}`)})
	schema := `{"type":"record","name":"r","fields":[{"name":"n","type":"int"},{"name":"a","type":"string"},
		{"name":"in","type":{"type":"record","name":"i","fields":[{"name":"x","type":"string"}]}},
		{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}}]}`
	body := container(t, schema, nil, map[string]any{"n": 7, "a": "8", "in": map[string]any{"x": "y"}, "t": time.UnixMilli(1500).UTC()})
	for _, mapping := range []string{"id", "m"} {
		if w := post(s, ingestURL("Logs", "T", "Avro", mapping), body); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	got, err := json.Marshal(s.Rows("Logs", "T"))
	if want := `[{"a":8,"b":"","at":null},{"a":7,"b":"y","at":"1970-01-01T00:00:01.5000000Z"}]`; err != nil || string(got) != want {
		t.Errorf("rows %s %v, want %s", got, err, want)
	}
	for _, bad := range []string{
		`{"name":"m","kind":"Avro","columns":[{"column":"a","field":"n","path":"$.n"}]}`, `{"name":"m","kind":"Json","columns":[{"column":"a","field":"n"}]}`,
		`{"name":"m","kind":"Csv","columns":[{"column":"a","ordinal":0,"field":"n"}]}`, `{"name":"m","kind":"Avro","columns":[{"column":"a","ordinal":0}]}`,
	} {
		if _, err := mgmt.LoadSchema(strings.NewReader(`{"databases":{"d":{"tables":{"t":{"columns":"a:long","mappings":[` + bad + `]}}}}}`)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// A body of which anything is not sound is not stored at all.
func TestAvroRefused(t *testing.T) {
	s := New(Options{})
	file := container(t, rowSchema, nil, row(1, "x"), row(2, "y"))
	f := func(body, code string) {
		t.Helper()
		w := post(s, ingestURL("d", "t", "Avro", "m"), body)
		if got, _, permanent := errorOf(t, w.Body.String()); w.Code != 400 || got != code || !permanent {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	f("", "BadRequest_InvalidBlob")
	f("Obj\x01", "BadRequest_InvalidBlob")
	f(file[:len(file)-1], "BadRequest_InvalidBlob")
	f(file[:len(file)-20], "BadRequest_InvalidBlob")
	f(file+file, "BadRequest_InvalidBlob")
	f(file[:len(file)-1]+string([]byte{file[len(file)-1] ^ 1}), "BadRequest_InvalidBlob")
	f(container(t, rowSchema, nil), "BadRequest")
	f(container(t, `"long"`, nil, 1), "BadRequest_InvalidBlob")
	if n := s.RowCount("d", "t"); n != 0 {
		t.Errorf("%d rows were stored", n)
	}
}

// TestAvroDurations: a duration is a timespan as the service writes one, also below zero and above a day.
func TestAvroDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{26 * time.Hour: `"1.02:00:00"`, -90 * time.Minute: `"-01:30:00"`, 100: `"00:00:00.0000001"`} {
		if got := string(kql.JSON(plain(d))); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
