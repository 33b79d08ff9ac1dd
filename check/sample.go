package check

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/avro/ocf"

	"kusto-agent/config"
	"kusto-agent/format"
	"kusto-agent/internal/schema"
	"kusto-agent/record"
)

// sampled is the most records of an input that are looked at.
const sampled = 200

// sample is what an input would send next; nil if that could not be found.
func (r *run) sample(ctx context.Context, in *config.Input) *Sample {
	if s, done := r.samples[in.Name]; done {
		return s
	}
	s, err := r.Sample(ctx, r.cfg, in)
	if err != nil {
		s = &Sample{None: err.Error()}
	}
	r.samples[in.Name] = s
	return s
}

// objects are the first records of Avro, or of JSON, one a line or in any other
// way.
func objects(body []byte, in *config.Input) (all []map[string]any) {
	if in.Format == record.Avro {
		return avroRecords(body)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	for len(all) < sampled {
		var v any
		if dec.Decode(&v) != nil {
			return all // the end, or leniencies that the service has and this has not
		}
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, v := range list {
			if o, ok := v.(map[string]any); ok {
				all = append(all, o)
			}
		}
	}
	return all[:min(len(all), sampled)]
}

// avroRecords are the first records of a container file.
func avroRecords(file []byte) (all []map[string]any) {
	r, err := ocf.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil
	}
	defer r.Close()
	for len(all) < sampled {
		var o map[string]any
		if r.Decode(&o) != nil {
			break // the end, or a block that cannot be read
		}
		for name, v := range o {
			o[name] = plain(v)
		}
		all = append(all, o)
	}
	return all
}

// plain is a value of Avro as JSON would have it, as far as its type can be told.
func plain(v any) any {
	switch x := v.(type) {
	case int32, int64, float32, float64:
		return json.Number(fmt.Sprint(x))
	case []byte:
		return string(x)
	case time.Time:
		return x.Format(time.RFC3339Nano)
	}
	return v
}

// rows are the first records of a format with fields, or of text.
func rows(body []byte, in *config.Input) (all [][]string) {
	spec, _ := format.Of(in.Format)
	if spec.Delimiter == 0 {
		for line := range bytes.Lines(body) {
			if all = append(all, []string{string(bytes.TrimRight(line, "\n"))}); len(all) == sampled {
				break
			}
		}
		return all
	}
	in1 := csv.NewReader(bytes.NewReader(body))
	in1.Comma, in1.FieldsPerRecord, in1.LazyQuotes = rune(spec.Delimiter), -1, true
	for len(all) < sampled {
		row, err := in1.Read()
		if err != nil {
			break
		}
		all = append(all, row)
	}
	return all
}

// column is one for a member of records.
type column struct {
	field
	member string
}

// guess is columns for what a sample holds, as setup would make them.
func guess(s *Sample, in *config.Input) (all []column) {
	seen := schema.Sample{Format: in.Format}
	if seen.Add(s.Body, len(s.Body), sampled) != nil {
		return nil
	}
	spec, _ := format.Of(in.Format)
	for _, f := range seen.Fields() {
		if _, ok := schema.Path(f.Name); !ok && spec.Mapping != "Csv" {
			continue
		}
		name := schema.Unique(schema.Legal(f.Name), func(s string) bool {
			return slices.ContainsFunc(all, func(c column) bool { return c.Name == s })
		})
		all = append(all, column{field{name, string(f.Type)}, f.Name})
	}
	return all
}
