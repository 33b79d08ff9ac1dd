package stored

import "testing"

// TestMeant: everything is chosen by --all alone, and of one cluster also by its URL.
func TestMeant(t *testing.T) {
	f := func(filter Filter, all, ok bool) {
		t.Helper()
		if err := filter.meant(all); (err == nil) != ok {
			t.Errorf("%+v, all %v: %v", filter, all, err)
		}
	}
	f(Filter{}, false, false)
	f(Filter{}, true, true)
	f(Filter{Cluster: "http://a"}, false, true)
	f(Filter{Cluster: "http://a"}, true, true)
	f(Filter{Inputs: []string{"a"}}, true, false)
	f(Filter{Cluster: "http://a", Since: "1h"}, true, false)
	f(Filter{Since: "1h"}, false, true)
}
