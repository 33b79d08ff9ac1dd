package format

import (
	"testing"

	"kusto-agent/internal/record"
)

func TestLookup(t *testing.T) {
	f := func(name string, want record.Format) {
		t.Helper()
		if got, ok := Lookup(name); got != want || ok != (want != "") {
			t.Errorf("Lookup(%q) = %q, %t, want %q", name, got, ok, want)
		}
	}
	f("csv", record.CSV)
	f("Tsv", record.TSV)
	f("SCSV", record.SCsv)
	f("sohsv", record.SOHsv)
	f("psv", record.PSV)
	f("txt", record.TXT)
	f("Json", record.JSON)
	f("multijson", record.MultiJSON)
	f("AVRO", record.Avro)
	f("parquet", "")
	f("", "")
}

func TestByExtension(t *testing.T) {
	f := func(ext string, want record.Format) {
		t.Helper()
		if got, ok := ByExtension(ext); got != want || ok != (want != "") {
			t.Errorf("ByExtension(%q) = %q, %t, want %q", ext, got, ok, want)
		}
	}
	f(".json", record.JSON)
	f(".jsonl", record.JSON)
	f(".NDJSON", record.JSON)
	f(".csv", record.CSV)
	f(".tsv", record.TSV)
	f(".psv", record.PSV)
	f(".avro", record.Avro)
	f(".txt", record.TXT)
	f(".log", record.TXT)
	f(".gz", "")
	f("", "")
}

func TestSpecs(t *testing.T) {
	for _, spec := range All() {
		got, ok := Of(spec.Format)
		if !ok || got.Mapping == "" {
			t.Errorf("Of(%s) = %+v, %t", spec.Format, got, ok)
		}
		if want := spec.Mapping != "Csv"; spec.NeedsMap != want {
			t.Errorf("%s: a mapping is needed: %t, want %t", spec.Format, spec.NeedsMap, want)
		}
	}
	if _, ok := Of("csv"); ok {
		t.Error("Of takes a spelling that is not documented")
	}
}

func TestNewRefuses(t *testing.T) {
	f := func(o Options, want string) {
		t.Helper()
		if _, err := New(o); err == nil || err.Error() != want {
			t.Errorf("New(%+v): %v, want %s", o, err, want)
		}
	}
	f(Options{Format: "XML", MaxRecord: 100}, `scan format "XML": unknown`)
	f(Options{Format: record.CSV}, `scan format CSV: records of at most 0 bytes: at least 4 are needed`)
	f(Options{Format: record.TXT, MaxRecord: 100, SkipHeader: true}, `scan format TXT: skip a header: only delimited formats have one`)
}
