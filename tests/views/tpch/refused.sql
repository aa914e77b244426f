-- The queries that are not accepted as the benchmark writes them.
create materialized view q2 as
select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
from part, supplier, partsupp, nation, region
where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size <= 15 and p_type like '%BRASS'
    and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
    and ps_supplycost = (
        select min(ps_supplycost) from partsupp, supplier, nation, region
        where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
            and n_regionkey = r_regionkey and r_name = 'EUROPE')
order by s_acctbal desc, n_name, s_name, p_partkey limit 5;

create materialized view q17 as
select sum(l_extendedprice) / 7.0 as avg_yearly from lineitem, part
where p_partkey = l_partkey and p_brand = 'Brand#23' and p_container = 'MED BOX'
    and l_quantity < (select 0.9 * avg(l_quantity) from lineitem where l_partkey = p_partkey);

create materialized view q19 as
select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
where (p_partkey = l_partkey and p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX')
        and l_quantity >= 1 and l_quantity <= 1 + 20 and p_size between 1 and 25 and l_shipmode in ('AIR', 'AIR REG'))
    or (p_partkey = l_partkey and p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX')
        and l_quantity >= 10 and l_quantity <= 10 + 20 and p_size between 1 and 50
        and l_shipmode in ('AIR', 'AIR REG'));

create materialized view q20 as
select s_name, s_address from supplier, nation
where s_suppkey in (
        select ps_suppkey from partsupp
        where ps_partkey in (select p_partkey from part where p_name like 'green%')
            and ps_availqty > (
                select 0.5 * sum(l_quantity) from lineitem
                where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= date '1993-01-01'
                    and l_shipdate < date '1994-01-01' + interval '2' year))
    and s_nationkey = n_nationkey and n_name = 'FRANCE';
