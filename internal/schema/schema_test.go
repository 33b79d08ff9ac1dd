package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"kusto-agent/internal/record"
)

// TestFits: what a column of each type keeps of a value.
func TestFits(t *testing.T) {
	f := func(kind string, want bool, values ...any) {
		t.Helper()
		for _, v := range values {
			if got := Fits(kind, v); got != want {
				t.Errorf("%s takes %#v: %v, want %v", kind, v, got, want)
			}
		}
	}
	n := func(s string) json.Number { return json.Number(s) }
	object := map[string]any{"a": nil}
	for _, kind := range []string{"string", "dynamic", ""} {
		f(kind, true, nil, "x", n("1"), true, object, []any{})
	}
	f("long", true, nil, "", n("9223372036854775807"), n("-1"), n("1e3"), n("1.0"), " 12 ", "0x1f")
	f("long", false, "x", n("9223372036854775808"), n("1.5"), "1.5", object, []any{})
	f("int", true, n("2147483647"), "7")
	f("int", false, n("2147483648"), "many")
	f("real", true, n("1.5"), "1e5", "NaN", "")
	f("real", false, "x", object)
	f("decimal", true, n("1.5"), "1.5")
	f("bool", true, true, n("0"), n("1"), "true", "False", "1")
	f("bool", false, n("2"), "yes", object)
	f("datetime", true, "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01 00:00:00.1234567", "2026-01-01T00:00:00+01:00", "Thu, 01 Jan 2026 00:00:00 GMT", "")
	f("datetime", false, n("1700000000"), "yesterday", true, object)
	f("timespan", true, "1.02:03:04.5", "00:01:00", "1.5h", n("5"), "10ms")
	f("timespan", false, "long", object)
	f("guid", true, "74be27de-1e4e-49d9-b579-fe0b331d3642")
	f("guid", false, "x", n("1"), object)
}

// TestMappings: a mapping is read in each form in which the service shows it, and each
// way of a path.
func TestMappings(t *testing.T) {
	t.Parallel()
	type read struct {
		source
		reads bool
	}
	f := func(document string, want ...read) {
		t.Helper()
		var all []Element
		if err := json.Unmarshal([]byte(document), &all); err != nil {
			t.Fatal(err)
		}
		var got []read
		for _, e := range all {
			s, reads := e.source()
			got = append(got, read{s, reads})
			if e.Column != "c" {
				t.Errorf("%s is of column %q", document, e.Column)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads %+v, want %+v", document, got, want)
		}
	}
	path := func(names ...string) read { return read{source{ordinal: -1, path: names}, true} }
	whole := func(names ...string) read { return read{source{-1, names, true}, true} }
	nothing := read{source{ordinal: -1}, false}
	f(`[{"column":"c","path":"$.a.b","datatype":"","transform":null}]`, path("a", "b"))
	f(`[{"Column":"c","Properties":{"path":"$['a b'].c","Transform":"None"}}]`, path("a b", "c"))
	f(`[{"column":"c","Properties":{"Path":"$[\"a.b\"]"}}]`, path("a.b"))
	f(`[{"column":"c","Properties":{"Path":"$['']"}}]`, path(""))
	f(`[{"column":"c","Properties":{"Field":"a"}}]`, path("a"))
	f(`[{"column":"c","Properties":{"Path":"$.a[0]"}}]`, whole("a"))
	f(`[{"column":"c","Properties":{"Path":"$.a..b"}}]`, whole("a"))
	f(`[{"column":"c","Properties":{"Path":"$['a'].b['c"}}]`, whole("a", "b"))
	f(`[{"column":"c","Properties":{"Path":"$"}},{"column":"c","Properties":{"Path":"a"}}]`, whole(), whole())
	f(`[{"Name":"c","DataType":"int","CsvDataType":null,"Ordinal":"3","ConstValue":null},{"column":"c","Properties":{"Ordinal":4}}]`, read{source{ordinal: 3}, true}, read{source{ordinal: 4}, true})
	f(`[{"column":"c","Properties":{"ConstValue":"x","Path":"$.a"}},{"column":"c","Properties":{"Transform":"SourceLocation"}},{"column":"c"}]`, nothing, nothing, nothing)
	for _, bad := range []string{`{}`, `x`, `[{"column":"c","Ordinal":"first"}]`, `[{"column":"c","Properties":[]}]`} {
		if json.Unmarshal([]byte(bad), new([]Element)) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestTakes: which field an element reads, and how people are told.
func TestTakes(t *testing.T) {
	t.Parallel()
	f := func(text, from string, takes Field, want bool) {
		t.Helper()
		var e Element
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if e.Column != "c" || e.from() != from || e.takes(takes) != want {
			t.Errorf("%s: column %s from %s, takes %+v: %v", text, e.Column, e.from(), takes, !want)
		}
	}
	a, third := Field{Name: "a", Named: true}, Field{Name: "x", Ordinal: 2}
	f(`{"column":"c","path":"$.a","datatype":"","transform":null}`, "$.a", a, true)
	f(`{"Column":"c","Properties":{"path":"$['a']","Transform":"None"}}`, "$['a']", a, true)
	f(`{"column":"c","Properties":{"Path":"$[\"a\"].b[0]"}}`, `$["a"].b[0]`, a, true)
	f(`{"column":"c","Properties":{"Path":"$.ab"}}`, "$.ab", a, false)
	f(`{"column":"c","Properties":{"Path":"$"}}`, "$", a, true)
	f(`{"column":"c","Properties":{"Field":"a"}}`, "a", a, true)
	f(`{"Name":"c","DataType":"int","CsvDataType":null,"Ordinal":2,"ConstValue":null}`, "ordinal 2", third, true)
	f(`{"column":"c","Properties":{"Ordinal":"1"}}`, "ordinal 1", third, false)
	f(`{"column":"c","Properties":{"ConstValue":"a"}}`, "constvalue a", a, false)
	f(`{"column":"c","Properties":{"Transform":"SourceLocation"}}`, "transform SourceLocation", a, false)
}

// TestPlanOfNothing: where there is no table, one for what a sample holds is planned.
func TestPlanOfNothing(t *testing.T) {
	t.Parallel()
	f := func(format record.Format, text, columns string) {
		t.Helper()
		s := &Sample{Format: format}
		if err := s.Add([]byte(text), 1<<20, 100); err != nil {
			t.Fatal(err)
		}
		p := NewPlan(record.Route{Table: "T", Format: format, Mapping: "m"}, &Table{}, s)
		if err := p.Make(); err != nil {
			t.Fatal(err)
		}
		if want := ".create-merge table ['T'] (" + columns + ")"; len(p.Steps) != 3 || p.Steps[0].Text != want {
			t.Errorf("%s: planned %v, want %s", text, p.Steps, want)
		}
	}
	f(record.JSON, `{"a":1,"b":"x","c":{}}`+"\n"+`{"a":1.5,"b":2,"c":[],"e":"2026-01-01T00:00:00Z"}`, "['a']:real, ['b']:string, ['c']:dynamic, ['e']:datetime")
	f(record.JSON, `{"":1,"[br]":2,"q\"q":3,"it's":4,"br_":5,"(br]":6,"'\"":7}`, "['_']:long, ['_br_']:long, ['q_q']:long, ['it_s']:long, ['br_']:long, ['_br__2']:long")
	f(record.CSV, "1,x,,true\n2,y,1.5,false\n", "['Column1']:long, ['Column2']:string, ['Column3']:real, ['Column4']:bool")
}

// TestCompareAvro: members of records in a container file against the fields of a mapping.
func TestCompareAvro(t *testing.T) {
	var file bytes.Buffer
	w, err := ocf.NewWriter(&file, avro.MustParse(`{"type":"record","name":"R","fields":[{"name":"n","type":"long"},{"name":"s","type":"string"},
		{"name":"in","type":{"type":"record","name":"I","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","int"]}]}}]}`))
	if err == nil {
		err = w.Encode(map[string]any{"n": int64(1), "s": "x", "in": map[string]any{"a": int32(1), "b": nil}})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{Columns: []Column{{"N", "long"}, {"A", "datetime"}, {"X", "string"}}, Mappings: []Mapping{{Kind: "Avro", Name: "m", Elements: []Element{
		{Column: "N", Properties: map[string]string{"Path": "$.n"}}, {Column: "A", Properties: map[string]string{"Field": "in"}}, {Column: "X", Properties: map[string]string{"Path": "$.x"}}}}}}
	of := record.Route{Table: "T", Format: record.Avro, Mapping: "m"}
	if c := table.Compare(of, file.Bytes()); c.Records != 1 || c.Discarded.String() != "$.s (1)" || !c.Null.Empty() || !slices.Equal(c.Unfilled, []string{"X"}) {
		t.Errorf("compared %+v", c)
	}
	table.Mappings[0].Elements[1].Properties = map[string]string{"Path": "$.in.a"}
	if c := table.Compare(of, file.Bytes()); c.Discarded.String() != "$.in.b (1), $.s (1)" {
		t.Errorf("compared %+v", c)
	}
	if all := avroRecords([]byte("no container")); all != nil {
		t.Errorf("of no container %v", all)
	}
}
