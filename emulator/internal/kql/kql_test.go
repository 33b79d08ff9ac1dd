package kql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestUnknown: what is not in the subset is an error that names it, with the code of
// the service.
func TestUnknown(t *testing.T) {
	f := func(text, code, named string) {
		t.Helper()
		got := strings.Join(answered(t, text), "\n")
		if !strings.HasPrefix(got, "error: "+code) || !strings.Contains(got, named) {
			t.Errorf("%s\ngives %s\nwant %s and %q", text, got, code, named)
		}
	}
	for _, name := range beyond {
		if operators[name] == nil {
			f("print x=1 | "+name+" x", "SEM0100", "'"+name+"'")
		}
	}
	f("print x=1 | wher x", "SYN0002", "'wher'")
	f("print cosmos(1)", "SEM0100", "'cosmos'")
	f("print x=1 | summarize percentile(x, 50)", "SEM0100", "'percentile'")
	f("print sum(1)", "SEM0100", "'sum'")
	f("print x=1 | join kind=cross (print x=1) on x", "SEM0100", "'cross'")
	f("print x=1 | join hint.strategy=broadcast (print x=1) on x", "SEM0100", "'hint'")
	f("let f = (a:long) { a + 1 }; print f(1)", "SEM0100", "'let f = (…) {…}'")
	f("let f = () { 1 }; print f()", "SEM0100", "'let f")
	f("set notruncation; print 1", "SEM0100", "'set'")
	f("declare pattern x; print 1", "SEM0100", "'declare'")
	f("cluster('x').database('y').T", "SEM0100", "'cluster'")
	f("union kind=outer isfuzzy=true (print 1)", "SEM0100", "'isfuzzy=true'")
	f("union A*", "SEM0100", "wildcard")
	f("search 'x'", "SEM0100", "'search'")
	f("Nope | count", "SEM0100", "'Nope'")
	f("print x", "SEM0100", "'x'")
	f("", "SYN0002", "")
	f("let x = 1;", "SYN0002", "")
	f("let x = strlen('a') 1; print x", "SYN0002", "'1; print x'")
	f("print 'a", "SYN0002", "")
	f(`print "\q"`, "SYN0002", `\q`)
	f("print 1 +", "SYN0002", "")
	f("print (1", "SYN0002", "want )")
	f("print x=1 | where x", "SEM0100", "not bool")
	f("print x=1 | where x == 'a'", "SEM0100", "long and string")
	f("print 'a' < 'b'", "SEM0100", "string and string")
	f("print true < dynamic(true)", "SEM0100", "bool and dynamic")
	f("print dynamic(true) < true", "SEM0100", "dynamic and bool")
	f("print dynamic(1) between (true .. true)", "SEM0100", "dynamic and bool")
	f("print 'a' contains 1", "SEM0100", "'contains'")
	f("print dynamic({'a':1}).a + 1", "SEM0100", "dynamic and long")
	f("print dynamic(1) == dynamic(1)", "SEM0100", "dynamic and dynamic")
	f("print datetime(2020-01-01) + datetime(2020-01-01)", "SEM0100", "datetime and datetime")
	f("print dynamic([3,1]) | sort by print_0", "SEM0100", "dynamic")
	f("print x='a'.b", "SEM0100", "string, not dynamic")
	f("print 'a' !like 'b'", "SYN0002", "operator")
	f("print 1 / 0", "SEM0100", "zero")
	f("print 9223372036854775807 + 1", "SEM0100", "range")
	f("print 'a' matches regex '('", "SEM0100", "regular expression")
	f("print a=1, a=2", "SEM0100", "'a'")
	f("print datetime(yesterday)", "SEM0100", "yesterday")
	f("print strlen(1)", "SEM0100", "strlen")
	f("print range('a', 'c')", "SEM0100", "string")
	f("print range(1, 'c')", "SEM0100", "long to string")
	f("print range(1, 3, 'c')", "SEM0100", "steps of string")
	f("print range(true, 3)", "SEM0100", "bool")
	f("print range(8, dynamic(10))", "SEM0100", "dynamic")
	f("print range(1, 3, 1h)", "SEM0100", "timespan")
	f("print range(1h, 3)", "SEM0100", "timespan to long")
	f("print range(datetime(2020-01-01), 1h)", "SEM0100", "datetime to timespan")
	f("range x from 8 to dynamic(10) step 1", "SEM0100", "long to dynamic")
	f("range x from 1h to datetime(2020-01-01) step datetime(2020-01-01)", "SEM0100", "timespan to datetime")
	f("print strlen('a', 'b')", "SEM0100", "strlen")
	f("datatable(a:long)['x']", "SEM0100", "'a'")
	f("datatable(a:long, b:long)[1]", "SEM0100", "rows")
	f("print "+strings.Repeat("(", 100_000), "SYN0002", "deep")
	f("print dynamic("+strings.Repeat("[", 100_000), "SYN0002", "deep")
	f("print "+strings.Repeat("-", 100_000)+"1", "SYN0002", "deep")
	f(strings.Repeat("(", 100_000), "SYN0002", "deep")
}

// TestStatements: several statements, each in turn; names of let and parameters.
func TestStatements(t *testing.T) {
	tables, err := Run(t.Context(), "let a = 2; let T = range x from 1 to 3 step 1 | where x >= a; T | count; print a; T | render timechart with (title='t', ycolumns=x)", nil, nowhere{})
	if err != nil || len(tables) != 3 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	if tables[0].Rows[0][0] != int64(2) || tables[1].Rows[0][0] != int64(2) || !strings.HasPrefix(string(tables[2].Render), `{"Visualization":"timechart","Title":"t","XColumn":null,"Series":null,"YColumns":"x","AnomalyColumns":null`) {
		t.Errorf("%v %v %s", tables[0].Rows, tables[1].Rows, tables[2].Render)
	}
	f := func(text, want string) {
		t.Helper()
		if got := strings.Join(answered(t, text), "; "); got != want {
			t.Errorf("%s\ngives %s\nwant  %s", text, got, want)
		}
	}
	f("let a = 1; let a = 2; print a", "2")
	f("let T = print x=1; let U = T | extend y=2; U | join kind=inner (T) on x | project y", "2")
	f("let n = toscalar(range x from 1 to 4 step 1 | summarize sum(x)); print n", "10")
	f("print x=1; ; ;", "1")
	f("print toint(-2147483648.0), toint(2147483648.0), tolong(-9223372036854775808.0)", "-2147483648 | null | null")
	f("print t=time(106000.00:00:00.0000007) | project bin(t, 3tick) == t - t % 3tick", "true")
	f("print d=dynamic({'by':1}) | summarize take_any(d).by", "1")
	f("(print x=1 | extend y=2) | project y", "2")
	f("range x from 1 to 6 step 1 | summarize n=count(), s=sum(x), round(avg(x), 1) by odd = x % 2 == 1 | sort by s asc", "true | 3 | 9 | 3; false | 3 | 12 | 4")
	f("range x from 1 to 4 step 1 | summarize arg_max(x, *) by b = x / 3 | sort by b asc", "0 | 2; 1 | 4")
	f("datatable(k:string, v:long)['a',1, 'a',2] | summarize arg_max(v, *) by k", `"a" | 2`)
	f("datatable(a:long)[1, long(null)] | join kind=inner (datatable(a:long)[1, long(null)]) on a | project a", "1")
	f("print d=dynamic({'a':[{'b':'x'}]}) | where d.a[0].b == 'x' and d['a'][0]['b'] startswith 'X' | count", "1")
	f("print d=dynamic({'n':5}) | where d.n > 4 and d.n in (5, 6) | count", "1")
	f("print d=dynamic({'n':'5'}) | where d.n == 5 or d.n > 4 | count", "0")
	f("print 9007199254740993 == 9007199254740992.0, 1 == 1.0, decimal(0.1) + decimal(0.2) == decimal(0.3)", "false | true | true")
	f("print bin(decimal(7.5), decimal(2)), isnull(bin(decimal(1), decimal(0))), isnull(bin(decimal(1), decimal(-2)))", `"6" | true | true`)
}

// TestDeadline: a query ends with its context, wherever it is.
func TestDeadline(t *testing.T) {
	over := errors.New("over")
	for _, text := range []string{
		"range x from 1 to 1000000000 step 1 | count",
		"range x from 1 to 20000 step 1 | extend k=1 | join kind=inner (range x from 1 to 20000 step 1 | extend k=1) on k | count",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		if _, err := Run(ctx, text, nil, nowhere{}); err != over {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzRun: a text of any kind ends with tables whose rows fit their columns, or with
// an error that has a code; it neither panics nor goes on for ever.
func FuzzRun(f *testing.F) {
	for _, text := range []string{
		"print 1", "datatable(a:long, b:string)[1,'x', 2,'y'] | where a > 1 and b has 'y' | summarize count() by bin(a, 2)",
		"let T = range x from 1 to 3 step 1; T | join kind=leftouter (T) on x | sort by x asc nulls last",
		"print d=dynamic({'a':[1,{\"b\":null}]}) | project d.a[1].b, d['a'][-1]", "declare query_parameters(p:long = 1); print p",
		"print @'a\\b', h\"x\", ```y```, 1.5e-3, 2d, datetime(2020-01-01), -5 % 3, 1 between (0 .. 2)",
		"union withsource=s (print x=1), (print y=2) | project-away x* | render piechart with (title='a')",
		"print x=1 | project-away x*\xff",
		"print extract('(a+)b', 1, 'aab'), replace_regex('a', 'a', '\\\\0'), case(true, 1, 2), strcat('a', 1)",
		"range x from 1 to 5 step 1 | summarize arg_max(x, *), make_set(x % 2), stdev(x) | top 1 by x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		tables, err := Run(ctx, text, map[string]string{"p": text}, nowhere{})
		if err != nil {
			code, _, _ := strings.Cut(err.Error(), ":")
			if code != "SYN0002" && code != "SEM0100" && code != "BadRequest" && code != "E_LOW_MEMORY_CONDITION" && ctx.Err() == nil {
				t.Errorf("%q: error without a code: %v", text, err)
			}
			return
		}
		for _, table := range tables {
			for _, row := range table.Rows {
				if len(row) != len(table.Columns) {
					t.Fatalf("%q: %d cells in %d columns", text, len(row), len(table.Columns))
				}
				for i, v := range row {
					if typ := table.Columns[i].Type; Written(v, typ) == nil || Types[typ] == "" {
						t.Fatalf("%q: %v of type %q", text, v, typ)
					}
				}
			}
		}
	})
}

// stored is a table of two rows, one of which has no time.
type stored struct{ nowhere }

func (stored) Table(string) (*Table, error) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &Table{Columns: []Column{{"n", "long"}}, Rows: [][]any{[]any{int64(1), at}[:1], []any{int64(2), nil}[:1]}, Ingested: true}, nil
}

// TestIngestionTime: it is that of the rows of a table, as long as they are its rows.
func TestIngestionTime(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		tables, err := Run(t.Context(), text, nil, stored{})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for _, row := range tables[0].Rows {
				for i, v := range row {
					got += string(Written(v, tables[0].Columns[i].Type)) + " "
				}
			}
		}
		if !strings.Contains(got, want) || want == "" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	f("T | project n, at = ingestion_time()", `1 "2026-01-02T03:04:05.0000000Z" 2 null `)
	f("T | where n > 0 | order by n desc | take 2 | where isnull(ingestion_time())", "2 ")
	f("T | where ingestion_time() >= datetime(2026-01-02) and ingestion_time() < datetime(2026-01-03) | count", "1 ")
	f("T | summarize count() by bin(ingestion_time(), 1d)", `"2026-01-02T00:00:00.0000000Z" 1 null 1 `)
	f("T", "1 2 ")
	f("T | project n | where isnull(ingestion_time())", "SEM0100")
	f("print ingestion_time()", "SEM0100")
	f("T | where ingestion_time(n) > now()", "SEM0100")
}

// TestNoDecimal: what is no decimal is null, and an empty text is no literal; neither ends the process.
func TestNoDecimal(t *testing.T) {
	want := "null | null | null"
	if got := strings.Join(answered(t, "print todecimal(real(nan)), todecimal(real(+inf)), todecimal(real(-inf))"), "\n"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, literal := range []string{"", " ", "-"} {
		_, err := Run(t.Context(), "declare query_parameters(p:long); print p", map[string]string{"p": literal}, nowhere{})
		if err == nil || !strings.HasPrefix(err.Error(), "SEM0100") {
			t.Errorf("the parameter %q: %v", literal, err)
		}
	}
}
