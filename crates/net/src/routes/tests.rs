use super::*;
use crate::topology::TopologyBuilder;
use crate::units::Time;

/// 2 leaves, 2 spines, one host per leaf.
fn leaf_spine() -> Topology {
    let mut b = TopologyBuilder::new("2x2");
    let (rate, delay) = (Bandwidth::from_gbps(10), Time::from_us(1));
    let leaves = [b.switch("l0", 1, None), b.switch("l1", 1, None)];
    let spines = [b.switch("s0", 2, None), b.switch("s1", 2, None)];
    for (i, leaf) in leaves.iter().enumerate() {
        let host = b.host(format!("h{i}"), i as u32, None);
        b.connect(host, *leaf, rate, delay);
        for spine in spines {
            b.connect(*leaf, spine, rate, delay);
        }
    }
    b.build().unwrap()
}

#[test]
fn ranks_enumerate_distinct_paths() {
    let t = leaf_spine();
    let r = Routes::intact(&t);
    let (from, class) = (NodeIx(0), r.class_of(HostIx(1)));
    assert_eq!(r.path_count(from, class), 2);
    assert_eq!(r.distance(from, class), Some(2));
    let paths: Vec<_> = (0..2).map(|rank| r.path(&t, from, class, rank)).collect();
    assert_ne!(paths[0], paths[1]);
    assert!(paths.iter().all(|path| path.len() == 2));
    assert!(r.path(&t, from, class, 2).is_empty());
    assert_eq!(t.link(r.last_link(HostIx(1)).unwrap()).to, t.host(HostIx(1)));
}

#[test]
fn a_dead_link_leaves_the_other_path() {
    let t = leaf_spine();
    let mut alive = vec![true; t.links().len()];
    let first_uplink = t.out_links(NodeIx(0)).iter().copied().find(|l| t.is_upward(*l)).unwrap();
    alive[first_uplink.ix()] = false;
    let r = Routes::new(&t, &alive);
    assert_eq!(r.path_count(NodeIx(0), r.class_of(HostIx(1))), 1);
    // The other direction of the cable still carries traffic towards leaf 0.
    assert_eq!(r.path_count(NodeIx(1), r.class_of(HostIx(0))), 2);
}

#[test]
fn host_routes_follow_its_switch_and_its_own_link() {
    let t = leaf_spine();
    let (host, class) = (t.host(HostIx(0)), Routes::intact(&t).class_of(HostIx(1)));
    let up = t.out_links(host)[0];
    let r = Routes::intact(&t);
    let seen =
        |r: &Routes, class| (r.next_hops(host, class).to_vec(), r.path_count(host, class), r.distance(host, class));
    assert_eq!(seen(&r, class), (vec![up], 2, Some(3)));
    assert_eq!(seen(&r, r.class_of(HostIx(0))), (vec![up], 1, Some(1)));
    let mut alive = vec![true; t.links().len()];
    alive[up.ix()] = false;
    assert_eq!(seen(&Routes::new(&t, &alive), class), (vec![], 0, None));
    // The host's own link is alive, but its switch is cut off.
    let mut alive = vec![true; t.links().len()];
    t.out_links(t.link(up).to).iter().filter(|link| t.is_upward(**link)).for_each(|link| alive[link.ix()] = false);
    assert_eq!(seen(&Routes::new(&t, &alive), class), (vec![], 0, None));
}

#[test]
fn weights_are_the_capacity_beyond() {
    let gbps = Bandwidth::from_gbps;
    let t = leaf_spine();
    // Spine 0 keeps only 3 of 10 Gb/s towards leaf 1.
    let narrow = t.with_links_changed(|_, link| {
        if t.node(link.from).name == "s0" && t.node(link.to).name == "l1" {
            link.rate = gbps(3);
        }
    });
    let r = Routes::intact(&narrow);
    let class = r.class_of(HostIx(1));
    assert_eq!(r.capacity_weights(&narrow, NodeIx(0), class), [gbps(3), gbps(10)]);
    let capacities = r.capacities(&narrow, class);
    assert_eq!(capacities[0], gbps(13));
    assert_eq!(capacities[r.class_node(class).ix()].as_bps(), u64::MAX);
    // A host can send no more than its own link.
    assert_eq!(capacities[t.host(HostIx(0)).ix()], gbps(10));
    let back = r.class_of(HostIx(0));
    assert_eq!(r.capacity_weights(&narrow, NodeIx(1), back), [gbps(10); 2]);
}

/// Checks that two tables give the same results.
fn check_equal(t: &Topology, updated: &Routes, new: &Routes) {
    assert_eq!(updated.class_count(), new.class_count());
    let hosts = (0..t.hosts().len() as u32).map(HostIx);
    for host in hosts {
        assert_eq!((updated.class_of(host), updated.last_link(host)), (new.class_of(host), new.last_link(host)));
    }
    for class in (0..new.class_count() as u32).map(ClassIx) {
        assert_eq!(updated.class_node(class), new.class_node(class));
        for node in (0..t.nodes().len() as u32).map(NodeIx) {
            let results =
                |r: &Routes| (r.next_hops(node, class).to_vec(), r.path_count(node, class), r.distance(node, class));
            assert_eq!(results(updated), results(new), "{node:?} to {class:?}");
            let count = new.path_count(node, class);
            for rank in [0, count / 2, count.saturating_sub(1)] {
                assert_eq!(updated.step(t, node, class, rank), new.step(t, node, class, rank));
            }
        }
    }
}

#[test]
fn updated_tables_equal_new_ones() {
    for family in
        ["fat-tree:k=4", "leaf-spine:leaves=3,spines=2,hosts_per_leaf=2", "diamond", "bcube:n=3,k=1", "fat-tree:k=6"]
    {
        let t = crate::spec::parse(family).unwrap_or_else(|error| panic!("{error}"));
        let mut stream = crate::RandomStream::new(1, family);
        let mut alive: Vec<bool> = t.links().iter().map(|_| stream.next_below(3) > 0).collect();
        let mut routes = IncrementalRoutes::new(&t, &alive);
        let (mut kept, mut changed, mut counted) = (0, 0, 0);
        for _ in 0..150 {
            // Mostly few links, sometimes none or many.
            for _ in 0..stream.next_below(4) * stream.next_below(4) {
                let link = LinkIx(stream.next_below(alive.len() as u64) as u32);
                let is_alive = stream.next_below(4) > 0;
                alive[link.ix()] = is_alive;
                if stream.next_below(2) == 0 {
                    alive[link.reverse().ix()] = is_alive;
                }
            }
            let before = Routes::clone(&routes);
            routes.update(&t, &alive);
            check_equal(&t, &routes, &Routes::new(&t, &alive));
            for class in (0..routes.class_count() as u32).map(ClassIx) {
                let is_switch = |node: &NodeIx| t.node(*node).kind == crate::NodeKind::Switch;
                let switches = || (0..t.nodes().len() as u32).map(NodeIx).filter(is_switch);
                let all = |r: &Routes| switches().map(|node| r.next_hops(node, class).to_vec()).collect::<Vec<_>>();
                let is_same = before.version(class) == routes.version(class);
                let (old, new) = (all(&before), all(&routes));
                assert!(!is_same || old == new);
                let differing = switches().zip(old.iter().zip(&new)).filter(|(_, (old, new))| old != new);
                let differing: Vec<NodeIx> = differing.map(|(node, _)| node).collect();
                if let Some(mut since) = routes.changed_since(class, before.version(class)) {
                    since.retain(is_switch);
                    assert_eq!(since, differing);
                    counted += differing.len();
                }
                if is_same { kept += 1 } else { changed += 1 }
            }
        }
        assert!(kept > 50 && changed > 50 && counted > 50, "{family}: {kept} {changed} {counted}");
    }
}

/// Tables that follow from those of a class with the same neighbours equal those of a search.
#[test]
fn tables_of_twins_equal_a_search() {
    let mut twins = 0;
    for family in ["fat-tree:k=6", "leaf-spine:leaves=8,spines=3,hosts_per_leaf=2,parallel=2", "vl2", "bcube:n=3,k=1"] {
        let t = crate::spec::parse(family).unwrap_or_else(|error| panic!("{error}"));
        let mut stream = crate::RandomStream::new(2, family);
        for round in 0..60 {
            // Cables fail in one direction or in both.
            let mut alive = vec![true; t.links().len()];
            for _ in 0..round / 4 {
                let link = LinkIx(stream.next_below(alive.len() as u64) as u32);
                alive[link.ix()] = false;
                alive[link.reverse().ix()] &= stream.next_below(2) == 0;
            }
            let mut routes = IncrementalRoutes::new(&t, &alive);
            twins += routes.twin_count();
            for class in 0..routes.class_count() {
                let column = routes.column(search::State { topology: &t, alive: &alive }, class);
                for row in 0..routes.row_node.len() as u32 {
                    assert_eq!(routes.entry(row, class), column[row as usize], "{family} {row} to {class}");
                }
            }
        }
    }
    assert!(twins > 500, "{twins}");
}

/// A network is discovered node by node and link by link, in any order.
#[test]
fn tables_of_growing_networks_equal_new_ones() {
    for seed in 0..20 {
        let mut stream = crate::RandomStream::new(seed, "growth");
        let (rate, delay) = (Bandwidth::from_gbps(10), Time::from_us(1));
        let mut b = TopologyBuilder::new("growing");
        let mut switches = vec![b.switch("s", 1, None)];
        let mut alive = Vec::new();
        let mut routes = IncrementalRoutes::new(&b.clone().build_partial().unwrap(), &alive);
        for step in 0..120 {
            let any = switches[stream.next_below(switches.len() as u64) as usize];
            match stream.next_below(4) {
                0 => switches.push(b.switch(format!("s{step}"), 1, None)),
                1 => {
                    let host = b.host(format!("h{step}"), 0, None);
                    b.connect(host, any, rate, delay);
                    alive.extend([true, true]);
                }
                _ => {
                    let other = switches[stream.next_below(switches.len() as u64) as usize];
                    if other != any {
                        b.connect(any, other, rate, delay);
                        alive.extend([true, stream.next_below(2) == 0]);
                    }
                }
            }
            if !alive.is_empty() && stream.next_below(3) == 0 {
                let link = stream.next_below(alive.len() as u64) as usize;
                alive[link] = !alive[link];
            }
            let t = b.clone().build_partial().unwrap();
            routes.update(&t, &alive);
            check_equal(&t, &routes, &Routes::new(&t, &alive));
        }
    }
}
