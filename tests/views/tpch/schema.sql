-- TPC-H's eight tables. Prices, discounts and quantities are as wide as the benchmark's values need.
create table region (r_regionkey integer primary key, r_name text not null, r_comment text);
create table nation (
    n_nationkey integer primary key, n_name text not null, n_regionkey integer not null, n_comment text);
create table supplier (
    s_suppkey integer primary key, s_name text not null, s_address text not null, s_nationkey integer not null,
    s_phone text not null, s_acctbal numeric(12, 2) not null, s_comment text not null);
create table customer (
    c_custkey integer primary key, c_name text not null, c_address text not null, c_nationkey integer not null,
    c_phone text not null, c_acctbal numeric(12, 2) not null, c_mktsegment text, c_comment text not null);
create table part (
    p_partkey integer primary key, p_name text not null, p_mfgr text not null, p_brand text not null,
    p_type text not null, p_size integer not null, p_container text not null, p_retailprice numeric(12, 2) not null);
create table partsupp (
    ps_partkey integer, ps_suppkey integer, ps_availqty integer not null, ps_supplycost numeric(12, 2) not null,
    primary key (ps_partkey, ps_suppkey));
create table orders (
    o_orderkey integer primary key, o_custkey integer not null, o_orderstatus text not null,
    o_totalprice numeric(12, 2) not null, o_orderdate date not null, o_orderpriority text not null,
    o_shippriority integer not null, o_comment text not null);
create table lineitem (
    l_orderkey integer, l_linenumber integer, l_partkey integer not null, l_suppkey integer not null,
    l_quantity numeric(6, 2) not null, l_extendedprice numeric(12, 2) not null, l_discount numeric(4, 2) not null,
    l_tax numeric(4, 2) not null, l_returnflag text not null, l_linestatus text not null, l_shipdate date not null,
    l_commitdate date not null, l_receiptdate date not null, l_shipinstruct text not null, l_shipmode text not null,
    primary key (l_orderkey, l_linenumber));
