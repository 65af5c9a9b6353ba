package server

import "testing"

// The shares of any number of descriptors do not exceed it, and each use gets some.
func TestPlanDescriptors(t *testing.T) {
	t.Parallel()
	for _, limit := range []uint64{128, 200, 256, 300, 512, 1024, 4096, 10_240, 65_536, 1 << 20, 1 << 40, ^uint64(0)} {
		for _, wanted := range []int{0, 1, 50, 300, 5000, 1 << 30} {
			for _, more := range []int{0, 1, 2, 3} {
				direct, cql := more&1 != 0, more&2 != 0
				d := planDescriptors(limit, true, wanted, connectionsMax, direct, cql)
				sum := d.connections + d.direct + d.cql + d.admin + d.tables + d.stores + descriptorsFixed
				if uint64(sum) > limit {
					t.Errorf("limit %d, %d wanted: %+v and %d come to %d", limit, wanted, d, descriptorsFixed, sum)
				}
				if d.connections < 1 || (d.direct > 0) != direct || (d.cql > 0) != cql || d.admin < adminMin || d.tables < tablesMin || d.stores < 1 {
					t.Errorf("limit %d, %d wanted: %+v leaves none for one of the uses", limit, wanted, d)
				}
				if wanted > 0 && d.connections > wanted {
					t.Errorf("limit %d, %d wanted: %+v", limit, wanted, d)
				}
			}
		}
	}
	for _, c := range []struct {
		limit  uint64
		known  bool
		wanted int
		direct bool
		cql    bool
		want   descriptors
	}{
		{256, true, 0, false, false, descriptors{connections: 64, admin: 12, tables: 32, stores: 84}},
		{1024, true, 0, false, false, descriptors{connections: 320, admin: 60, tables: 160, stores: 420}},
		{1 << 20, true, 0, false, false, descriptors{connections: 8192, admin: 64, tables: 1000, stores: 1<<20 - 8192 - 64 - 1000 - descriptorsFixed}},
		{0, false, 0, false, false, planDescriptors(1<<20, true, 0, connectionsMax, false, false)},
		{256, true, 40, false, false, descriptors{connections: 40, admin: 12, tables: 32, stores: 108}},
		{256, true, 0, false, true, descriptors{connections: 64, cql: 32, admin: 12, tables: 32, stores: 52}},
		{1024, true, 0, false, true, descriptors{connections: 320, cql: 160, admin: 60, tables: 160, stores: 260}},
		{1 << 20, true, 0, false, true, descriptors{connections: 8192, cql: 4096, admin: 64, tables: 1000, stores: 1<<20 - 8192 - 4096 - 64 - 1000 - descriptorsFixed}},
		{256, true, 0, true, true, descriptors{connections: 64, direct: 16, cql: 32, admin: 12, tables: 32, stores: 36}},
		{1024, true, 0, true, true, descriptors{connections: 320, direct: 80, cql: 160, admin: 60, tables: 160, stores: 180}},
		{1 << 20, true, 0, true, true, descriptors{connections: 8192, direct: 2048, cql: 4096, admin: 64, tables: 1000, stores: 1<<20 - 8192 - 2048 - 4096 - 64 - 1000 - descriptorsFixed}},
		{256, true, 500, false, false, descriptors{connections: 96, admin: 12, tables: 32, stores: 52}},
	} {
		if got := planDescriptors(c.limit, c.known, c.wanted, connectionsMax, c.direct, c.cql); got != c.want {
			t.Errorf("%d descriptors, known %t, %d wanted: got %+v, want %+v", c.limit, c.known, c.wanted, got, c.want)
		}
	}
}
